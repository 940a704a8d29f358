// As epochs.bad.c, with barriers.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

void epoch_begin(void);
void epoch_end(void);
PERSISTENT uint64_t a;
PERSISTENT uint64_t b __attribute__((aligned(64)));

void disjoint(void) {
  epoch_begin();
  a = 1;
  persist(&a, sizeof a);
  epoch_end();
  epoch_begin();
  b = 2;
  persist(&b, sizeof b);
  epoch_end();
}

void nested(void) {
  epoch_begin();
  epoch_begin();
  a = 1;
  persist(&a, sizeof a);
  epoch_end();
  b = 2;
  persist(&b, sizeof b);
  epoch_end();
}
