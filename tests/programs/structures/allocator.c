// An allocator of fixed blocks: a bitmap says what is taken, a free list is rebuilt from it, and an owner table
// names the owner of each block before the block counts as taken.
//@ variant right: -DBUG=0
//@ check: clean
//@ variant bug-1: -DBUG=1
//@ check: fails
//@ variant bug-2: -DBUG=2
//@ check: fails
//@ variant bug-3: -DBUG=3
//@ check: fails

#include <crashproof.h>

#define BLOCKS 6

struct pool {
  unsigned long taken;
  long owner[BLOCKS] __attribute__((aligned(64)));
  long generation __attribute__((aligned(64)));
  char block[BLOCKS][64] __attribute__((aligned(64)));
};

static int allocate(struct pool *pool, long owner) {
  for (int i = 0; i < BLOCKS; i++) {
    if (pool->taken >> i & 1)
      continue;
    pool->block[i][0] = (char)owner;
#if BUG != 1
    crashproof_persist(pool->block[i], sizeof pool->block[i]);
#endif
    pool->owner[i] = owner;
#if BUG != 2
    crashproof_persist(&pool->owner[i], sizeof pool->owner[i]);
#endif
    pool->taken |= 1ul << i;
    crashproof_persist(&pool->taken, sizeof pool->taken);
    return i;
  }
  return -1;
}

static void release(struct pool *pool, int i) {
  pool->taken &= ~(1ul << i);
#if BUG != 3
  crashproof_persist(&pool->taken, sizeof pool->taken);
#endif
  pool->owner[i] = 0;
  crashproof_persist(&pool->owner[i], sizeof pool->owner[i]);
}

int main(void) {
  struct pool *pool = crashproof_root(sizeof *pool);
  for (int i = 0; i < BLOCKS; i++)
    if (pool->taken >> i & 1) {
      crashproof_assert(pool->owner[i] != 0);
      crashproof_assert(pool->block[i][0] != 0);
    }
  if (crashproof_crashes())
    return 0;
  int first = allocate(pool, 7);
  allocate(pool, 8);
  release(pool, first);
  allocate(pool, 9);
  return 0;
}
