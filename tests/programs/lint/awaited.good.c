// A clflush is not overtaken, and where it matters somebody waits for it.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT uint64_t a[8];

void set(uint64_t v, int wait) {
  a[0] = v;
  _mm_clflush(a);
  if (wait)
    _mm_sfence();
}
