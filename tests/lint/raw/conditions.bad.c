// The store and the flush depend on different conditions.
#include "raw.h"

PERSISTENT uint64_t value;

void update(int dirty, int eager, uint64_t to) {
  if (dirty)
    value = to; //~ unflushed-write
  if (eager && dirty)
    persist(&value, sizeof value);
}
