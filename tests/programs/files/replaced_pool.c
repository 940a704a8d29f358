// A pool is built beside the old one, written back and renamed over it while it is mapped.
//@ args: {dir}/pool {dir}/pool.new
//@ prove: skip (prove has no names of files)
//@ lint: skip (what a rename means is not known to lint)
//@ check: clean
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static long *map(const char *path, int flags) {
  int fd = open(path, O_RDWR | flags, 0600);
  if (fd < 0)
    return 0;
  crashproof_assert(ftruncate(fd, 4096) == 0);
  long *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED);
  fsync(fd);
  close(fd);
  return pool;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  long *old = map(argv[1], 0);
  if (crashproof_crashes()) {
    crashproof_assert(!old || *old == 42);
    return 0;
  }
  long *pool = map(argv[2], O_CREAT | O_TRUNC);
  *pool = 42;
  crashproof_persist(pool, sizeof *pool);
  crashproof_assert(rename(argv[2], argv[1]) == 0);
  int directory = open(".", O_RDONLY | O_DIRECTORY);
  fsync(directory);
  *pool = 42;
  return 0;
}
