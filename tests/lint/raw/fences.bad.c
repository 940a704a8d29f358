// A fence with nothing to wait for, a flush nobody waits for, a store nobody flushes.
#include "raw.h"

PERSISTENT struct {
  uint64_t a;
  char pad[120];
  uint64_t b;
} data;

void two_fences(void) {
  data.a = 1;
  persist(&data.a, sizeof data.a);
  _mm_sfence(); //~ empty-fence
}

void no_fence(void) {
  data.a = 2;
  flush(&data.a, sizeof data.a); //~ missing-barrier
}

void no_flush(void) {
  data.a = 3;
  data.b = 4; //~ unflushed-write
  persist(&data.a, sizeof data.a);
}
