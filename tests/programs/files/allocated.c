// A pool that posix_fallocate makes and mmap maps, as programs for DAX do: nobody calls fsync, and nobody must.
//@ args: {dir}/pool
//@ prove: skip (prove has no posix_fallocate)
//@ lint: skip (lint has no posix_fallocate)
//@ variant good: -DGOOD
//@ check: clean
//@ variant magic-first:
//@ check: fails at ROOT
#include <crashproof.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
  long magic;
  long root __attribute__((aligned(64)));
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  crashproof_assert(fd >= 0 && posix_fallocate(fd, 0, 1 << 20) == 0);
  struct pool *pool = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED && close(fd) == 0);
  if (pool->magic == 0xface) {
    crashproof_assert(pool->root == 64);
    return 0;
  }
  pool->root = 64; // MARK: ROOT
#ifdef GOOD
  crashproof_persist(&pool->root, sizeof pool->root);
#endif
  pool->magic = 0xface;
  crashproof_persist(&pool->magic, sizeof pool->magic);
  return 0;
}
