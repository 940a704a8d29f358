// What returns true did not fail.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
#include <stdbool.h>

PERSISTENT static struct {
  uint64_t slots[64];
  uint64_t head;
} ring;

bool put(uint64_t value) {
  if (ring.head == 64)
    return false;
  ring.slots[ring.head] = value;
  persist(&ring.slots[ring.head], sizeof value);
  return true;
}
