// The pool is prepared by another run of the program, which does not crash; what follows is checked.
//@ flags check: --setup "{program} create {dir}/pool"
//@ args: use {dir}/pool
//@ prove: skip (prove has no files)
//@ lint: skip (the interesting part needs arguments)
//@ variant good: -DGOOD
//@ check: clean
//@ variant unflushed:
//@ check: fails at VALUE
#include <crashproof.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
  long magic;
  long value __attribute__((aligned(64)));
  long valid __attribute__((aligned(64)));
};

static struct pool *map(const char *path, int flags) {
  int fd = open(path, O_RDWR | flags, 0644);
  if (fd < 0)
    return 0;
  if (flags)
    crashproof_assert(ftruncate(fd, 4096) == 0);
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return pool == MAP_FAILED ? 0 : pool;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  if (strcmp(argv[1], "create") == 0) {
    struct pool *pool = map(argv[2], O_CREAT);
    crashproof_assert(pool);
    // Without any flush, which is nobody's business here.
    pool->magic = 0x9001;
    return 0;
  }
  struct pool *pool = map(argv[2], 0);
  crashproof_assert(pool && pool->magic == 0x9001);
  crashproof_assert(!pool->valid || pool->value == 5);
  pool->value = 5; // MARK: VALUE
#ifdef GOOD
  crashproof_persist(&pool->value, sizeof pool->value);
#endif
  pool->valid = 1;
  crashproof_persist(&pool->valid, sizeof pool->valid);
  return 0;
}
