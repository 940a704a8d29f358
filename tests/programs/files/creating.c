// A program that cannot open what a crash left of its pool's creation says so again and again: one finding.
//@ args: {dir}/pool
//@ lint: flush-unmodified at CREATED
//@ lint: flush-unmodified at first-entry
//@ lint: flush-unmodified at second-entry
//@ variant plain:
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ figures: 4 crash points, 9 recoveries
//@ prove: refuted at claim-violated
//@ variant prepared: -DPREPARED
//@ check: clean
//@ figures: 4 crash points, 2 recoveries
//@ prove: vacuous
#include <crashproof.h>
#include <stdio.h>
#include <string.h>

struct pool {
  long size;
  char name[40];
  long checksum;
  long entries[8];
  long ready;
};

static long sum(struct pool *pool) {
  long sum = pool->size + 1;
  for (size_t i = 0; i < sizeof pool->name; i++)
    sum += pool->name[i];
  return sum;
}

int main(void) { // MARK: claim-violated
  struct pool *pool = crashproof_root(sizeof *pool);
#ifndef PREPARED
  if (crashproof_crashes() && (pool->checksum != sum(pool) || !pool->ready)) {
    fprintf(stderr, "cannot open the pool\n");
    return 1;
  }
#endif
  if (!pool->ready) {
    pool->size = sizeof *pool;
    memset(pool->name, 'n', sizeof pool->name);
    pool->checksum = sum(pool); // MARK: recovery-fails-nothing-lost
    crashproof_persist(pool, sizeof *pool); // MARK: CREATED
    pool->entries[0] = 1;
    crashproof_persist(pool->entries, sizeof pool->entries); // MARK: first-entry
    pool->ready = 1;
    crashproof_persist(&pool->ready, sizeof pool->ready);
  }
  pool->entries[1] = 1;
  crashproof_persist(pool->entries, sizeof pool->entries); // MARK: second-entry
  return 0;
}
