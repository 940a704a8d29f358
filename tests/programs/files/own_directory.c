// A program keeps its pool in a directory that it makes, and takes the directory for the sign that the pool was made, too.
//@ args: {dir}/data
//@ flags check: --pm-path {dir}
//@ prove: skip (prove has no directories)
//@ lint: skip (what a directory means is not known to lint)
//@ variant good: -DGOOD
//@ check: clean
//@ variant plain:
//@ check: recovery-fails at LOST
//@ variant removed-at-the-end: -DREMOVED
//@ check: recovery-fails at LOST
#include <crashproof.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
  char path[512];
  snprintf(path, sizeof path, "%s/pool", argv[1]);
  int is_new = mkdir(argv[1], 0777) == 0;
  crashproof_assert(is_new || errno == EEXIST);
  int fd = open(path, O_RDWR | O_CREAT, 0666);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED);
  close(fd);
  if (!is_new) {
    crashproof_assert(!pool->valid || pool->value == 7);
    return 0;
  }
  pool->value = 7; // MARK: LOST
#ifdef GOOD
  crashproof_persist(&pool->value, sizeof pool->value);
#endif
  pool->valid = 1;
  crashproof_persist(&pool->valid, sizeof pool->valid);
#ifdef REMOVED
  // What is removed last was there at the crash.
  crashproof_assert(unlink(path) == 0 && rmdir(argv[1]) == 0);
#endif
  return 0;
}
