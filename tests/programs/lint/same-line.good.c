// Layout decides: another field of the flushed word is durable with it, and an unmodified field of a
// modified line costs nothing.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT struct {
  uint32_t low, high;
  uint64_t rest[6];
} __attribute__((aligned(64))) line;

void word(void) {
  line.low = 1;
  line.high = 2;
  persist(&line.low, sizeof line.low);
}

void whole(void) {
  line.rest[5] = 1;
  persist(&line, sizeof line);
}
