// The configuration is replaced by renaming a complete new one over it: a crash leaves the old one or the new one. Without
// fsync the new name can be there before what the file holds.
//@ flags check: --medium disk
//@ args: {dir}/config {dir}/config.new
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD
//@ check: clean
//@ variant no-fsync:
//@ check: fails at WRITTEN
//@ variant stream-good: -DSTREAM -DGOOD
//@ check: clean
//@ variant stream: -DSTREAM
//@ check: fails at FLUSHED
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char text[] = "answer = 42\n";

static void check(const char *path) {
  char found[64] = "";
  int fd = open(path, O_RDONLY);
  if (fd < 0)
    return;
  ssize_t count = read(fd, found, sizeof found - 1);
  close(fd);
  crashproof_assert(count == (ssize_t)strlen(text) && strcmp(found, text) == 0);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  check(argv[1]);
  if (crashproof_crashes())
    return 0;
#ifdef STREAM
  FILE *file = fopen(argv[2], "w");
  crashproof_assert(file && fputs(text, file) >= 0);
  fflush(file); // MARK: FLUSHED
#ifdef GOOD
  crashproof_assert(fsync(fileno(file)) == 0);
#endif
  fclose(file);
#else
  int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  crashproof_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text)); // MARK: WRITTEN
#ifdef GOOD
  crashproof_assert(fsync(fd) == 0);
#endif
  close(fd);
#endif
  crashproof_assert(rename(argv[2], argv[1]) == 0);
  return 0;
}
