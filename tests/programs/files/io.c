// Data read into PM are stores; data written from PM are reads.
//@ args: {dir}/pool
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: unknown (not understood, and may touch PM: readv)
//@ prove: unknown (is not modeled)
//@ variant plain:
//@ check: fails at LOST
//@ figures: 2 crash points, 3 recoveries
//@ lint: unknown (not understood, and may touch PM: readv)
//@ lint: unflushed-write at LOST
//@ prove: unknown (is not modeled)
#include <crashproof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct root {
  char piped[64], parts[2][64], line[64], block[64], sent[64];
  long done;
};

static void verify(struct root *r) {
  int ends[2];
  char text[64] = "";
  crashproof_assert(pipe(ends) == 0);
  crashproof_assert(write(ends[1], r->piped, 5) == 5);
  struct iovec parts[2] = {{r->parts[0], 2}, {r->parts[1], 2}};
  crashproof_assert(writev(ends[1], parts, 2) == 4);
  crashproof_assert(read(ends[0], text, 64) == 9 && strcmp(text, "helloabcd") == 0);
  FILE *file = tmpfile();
  fputs(r->line, file);
  fwrite(r->block, 1, 4, file);
  rewind(file);
  memset(text, 0, sizeof text);
  crashproof_assert(fread(text, 1, 64, file) == 9 && strcmp(text, "line\nfour") == 0);
  crashproof_assert(strcmp(r->sent, "sent") == 0);
}

int main(int argc, char **argv) {
  (void)argc, (void)argv;
  struct root *r = crashproof_root(sizeof *r);
  if (r->done) {
    verify(r);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
  int ends[2];
  crashproof_assert(pipe(ends) == 0 && write(ends[1], "helloabcd", 9) == 9);
  crashproof_assert(read(ends[0], r->piped, 5) == 5);
  struct iovec parts[2] = {{r->parts[0], 2}, {r->parts[1], 64}};
  crashproof_assert(readv(ends[0], parts, 2) == 4);
  FILE *file = tmpfile();
  fputs("line\nfour", file);
  rewind(file);
  crashproof_assert(fgets(r->line, 64, file) == r->line);
  crashproof_assert(fread(r->block, 1, 4, file) == 4);
  int pair[2];
  crashproof_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && send(pair[0], "sent", 5, 0) == 5);
  crashproof_assert(recv(pair[1], r->sent, 64, 0) == 5); // MARK: LOST
#ifdef GOOD
  crashproof_persist(r, sizeof *r);
#else
  crashproof_persist(r, 5 * 64);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
