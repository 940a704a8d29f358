// Structures passed by value are read by the caller.
#include "test.h"

struct big { long a[5]; };

__attribute__((noinline)) static long take(struct big b) { return b.a[0] + b.a[4]; }
__attribute__((noinline)) static struct big give(long x) { return (struct big){{x, 0, 0, 0, x}}; }
__attribute__((noinline)) static long call(struct big *b) { return take(*b); }

int main(void) {
  struct big *p = PM(struct big, 0);
  *p = give(21); // may be written in place
  CHECK(call(p) == 42);
  struct big in_dram = give(4);
  CHECK(call(&in_dram) == 8);
  return 0;
}
