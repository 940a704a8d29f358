// As fences.bad.c, and memory that is not persistent: nothing to say.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT struct {
  uint64_t a;
  char pad[120];
  uint64_t b;
} data;
static uint64_t volatile_counter;
static struct {
  uint64_t a, b;
} *heap_object;

void both(void) {
  data.a = 3;
  data.b = 4;
  flush(&data.a, sizeof data.a);
  flush(&data.b, sizeof data.b);
  _mm_sfence();
  volatile_counter++;
  heap_object->a = volatile_counter;
}
