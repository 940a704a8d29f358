// The store and the flush depend on different conditions.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT uint64_t value;

void update(int dirty, int eager, uint64_t to) {
  if (dirty)
    value = to; // MARK: unflushed-write
  if (eager && dirty)
    persist(&value, sizeof value);
}
