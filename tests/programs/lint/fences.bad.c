// A fence with nothing to wait for, a flush nobody waits for, a store nobody flushes.
//@ check: skip (a fragment: it has no main)
//@ lint: empty-fence at empty-fence
//@ lint: missing-barrier at missing-barrier
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT struct {
  uint64_t a;
  char pad[120];
  uint64_t b;
} data;

void two_fences(void) {
  data.a = 1;
  persist(&data.a, sizeof data.a);
  _mm_sfence(); // MARK: empty-fence
}

void no_fence(void) {
  data.a = 2;
  flush(&data.a, sizeof data.a); // MARK: missing-barrier
}

void no_flush(void) {
  data.a = 3;
  data.b = 4; // MARK: unflushed-write
  persist(&data.a, sizeof data.a);
}
