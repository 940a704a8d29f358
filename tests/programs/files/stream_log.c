// A stream: fflush hands the text to the kernel, fsync makes it durable. Another file says what is there.
//@ flags check: --medium disk
//@ args: {dir}/journal {dir}/done
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DSYNC
//@ check: clean
//@ variant only-flushed:
//@ check: fails at FLUSHED
#include <crashproof.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  FILE *done = fopen(argv[2], "r");
  int lines = 0;
  if (done) {
    if (fscanf(done, "%d", &lines) != 1)
      lines = 0;
    fclose(done);
  }
  FILE *journal = fopen(argv[1], "a+");
  crashproof_assert(journal);
  rewind(journal);
  char line[64];
  for (int i = 0; i < lines; i++)
    crashproof_assert(fgets(line, sizeof line, journal) && strncmp(line, "entry ", 6) == 0 && strchr(line, '\n'));
  if (crashproof_crashes())
    return 0;
  fprintf(journal, "entry %d\n", 1);
  fflush(journal); // MARK: FLUSHED
#ifdef SYNC
  crashproof_assert(fsync(fileno(journal)) == 0);
#endif
  done = fopen(argv[2], "w");
  crashproof_assert(done && fprintf(done, "1\n") > 0 && fflush(done) == 0 && fsync(fileno(done)) == 0);
  fclose(done);
  fclose(journal);
  return 0;
}
