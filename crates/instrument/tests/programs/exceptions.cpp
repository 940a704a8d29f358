// Accesses around invoke and landing pads, structures by value through them.
#include "test.h"

struct big { long a[4]; };

__attribute__((noinline)) static long thrower(big b) {
  if (b.a[0] == 1) throw b.a[1];
  return b.a[0];
}

__attribute__((noinline)) static long guarded(big *p) {
  try {
    p->a[2] = thrower(*p);
  } catch (long value) {
    p->a[3] = value;
  }
  return p->a[3];
}

int main() {
  big *p = PM(big, 0);
  p->a[0] = 1;
  p->a[1] = 7;
  CHECK(guarded(p) == 7);
  p->a[0] = 2;
  CHECK(guarded(p) == 7);
  return 0;
}
