// As unsigned.bad.c, written back.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT struct {
  uint64_t used;
  char pad[120];
  uint64_t full;
} pool;

static size_t find(size_t want) { return want > 4096 ? (size_t)-1 : want; }

void take(size_t want) {
  size_t at = find(want);
  if (at > 4096) {
    pool.full = 1;
    persist(&pool.full, sizeof pool.full);
    return;
  }
  pool.used = at;
  persist(&pool.used, sizeof pool.used);
}

void give(void) {
  pool.full = 0;
  persist(&pool.full, sizeof pool.full);
}
