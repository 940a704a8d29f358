// A test makes a directory for its pool and removes both at the end: they were there at the crash.
//@ args: {dir}
//@ prove: skip (prove has no directories)
//@ lint: skip (what a directory means is not known to lint)
//@ check: recovery-fails at LOST
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
  snprintf(directory, sizeof directory, "%s/fixed", argv[1]);
  mkdir(directory, 0700);
  snprintf(path, sizeof path, "%s/pool", directory);
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED && close(fd) == 0);
  crashproof_assert(!pool->valid || pool->value == 7);
  pool->value = 7; // MARK: LOST
  pool->valid = 1;
  crashproof_persist(&pool->valid, sizeof pool->valid);
  crashproof_assert(unlink(path) == 0 && rmdir(directory) == 0);
  return 0;
}
