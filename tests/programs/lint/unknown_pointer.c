// Whoever calls decides which code runs: it may fence what was flushed, and so nothing can be said of the flush.
//@ cflags: -mclwb
//@ prove: skip (the program has no main)
//@ variant pending: -DPENDING
//@ check: skip (the program has no main)
//@ lint: unknown (a call through a pointer may run unknown code)
//@ variant given: -DGIVEN
//@ check: skip (the program has no main)
//@ lint: unknown (a call through a pointer may run unknown code)
//@ variant apart: -DAPART
//@ check: skip (the program has no main)
//@ lint: clean
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT long value __attribute__((aligned(64)));

void update(void (*progress)(void *)) {
#if defined PENDING
  value = 1;
  _mm_clwb(&value);
  progress(0);
#elif defined GIVEN
  progress(&value);
#else
  value = 1;
  crashproof_persist(&value, sizeof value);
  progress(0);
#endif
}
