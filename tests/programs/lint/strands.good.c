// As strands.bad.c, joined in between; and strands that share nothing.
//@ flags lint: --model strand
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

void strand_begin(void);
void strand_end(void);
void strand_join(void);
PERSISTENT uint64_t a;
PERSISTENT uint64_t b __attribute__((aligned(64)));

void update(void) {
  strand_begin();
  a = 1;
  persist(&a, sizeof a);
  strand_end();
  strand_join();
  strand_begin();
  b = a + 1;
  persist(&b, sizeof b);
  strand_end();
}
