// A condition that decides over the store decides over the flush, too.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT uint64_t value;

void update(int dirty, uint64_t to) {
  if (dirty)
    value = to;
  for (int i = 0; i < 3; i++)
    __asm__ volatile("" ::: "memory");
  if (dirty)
    persist(&value, sizeof value);
}
