// A test makes a temporary directory for its pool. Run again it makes another one, by another name, or makes its pool anew
// under the old name: no recovery looks at what a crash left, and a verdict would be about nothing. A test that opens
// what it made before is judged; so is one that names its directory by its process, whose number stays the same.
//@ args: {dir}
//@ prove: skip (prove has no directories)
//@ lint: skip (what a directory means is not known to lint)
//@ variant mkdtemp:
//@ check: unknown (no recovery reads the files that the program stored to)
//@ variant process: -DPROCESS
//@ check: recovery-fails at LOST
//@ variant removed-first: -DREMOVED_FIRST
//@ check: unknown (no recovery reads the files that the program stored to)
//@ variant opened-again: -DAGAIN
//@ check: recovery-fails at LOST
//@ variant emptied-first: -DAGAIN -DEMPTIED
//@ check: clean
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct pool {
  long value;
  long other_line[7];
  long valid;
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  char directory[512], path[520];
#if defined(PROCESS)
  snprintf(directory, sizeof directory, "%s/tests-%d", argv[1], (int)getpid());
  mkdir(directory, 0700);
#elif defined(REMOVED_FIRST) || defined(AGAIN)
  snprintf(directory, sizeof directory, "%s/tests", argv[1]);
  mkdir(directory, 0700);
#else
  snprintf(directory, sizeof directory, "%s/tests-XXXXXX", argv[1]);
  crashproof_assert(mkdtemp(directory));
#endif
  snprintf(path, sizeof path, "%s/pool", directory);
  int how = O_RDWR | O_CREAT;
#ifdef REMOVED_FIRST
  unlink(path);
#endif
#ifdef EMPTIED
  how |= O_TRUNC;
#endif
  int fd = open(path, how, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED && close(fd) == 0);
  crashproof_assert(!pool->valid || pool->value == 7);
  pool->value = 7; // MARK: LOST
  pool->valid = 1;
  crashproof_persist(&pool->valid, sizeof pool->valid);
  return 0;
}
