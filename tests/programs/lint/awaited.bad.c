// Only one branch waits, and what is stored next may overtake the flush.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier at missing-barrier
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT uint64_t a[8];

void set(uint64_t v, int wait) {
  a[0] = v;
  _mm_clwb(a); // MARK: missing-barrier
  if (wait)
    _mm_sfence();
}
