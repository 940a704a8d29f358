// An allocator of fixed blocks: a bitmap says what is taken, a free list is rebuilt from it, and an owner table
// names the owner of each block before the block counts as taken.
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails
//@ prove: refuted at claim-violated
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails at recovery-fails-2
//@ lint: unflushed-write at recovery-fails-2
//@ prove: refuted at claim-violated-2
//@ variant bug-3: -DBUG=3
//@ check: recovery-fails at recovery-fails-3
//@ lint: unflushed-write at recovery-fails-3
//@ prove: refuted at claim-violated-2

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
    pool->block[i][0] = (char)owner; // MARK: recovery-fails
#if BUG != 1
    crashproof_persist(pool->block[i], sizeof pool->block[i]);
#endif
    pool->owner[i] = owner; // MARK: recovery-fails-2
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
  pool->taken &= ~(1ul << i); // MARK: recovery-fails-3
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
      crashproof_assert(pool->owner[i] != 0); // MARK: claim-violated-2
      crashproof_assert(pool->block[i][0] != 0); // MARK: claim-violated
    }
  if (crashproof_crashes())
    return 0;
  int first = allocate(pool, 7);
  allocate(pool, 8);
  release(pool, first);
  allocate(pool, 9);
  return 0;
}
