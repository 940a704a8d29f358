// It does not matter here: it is only printed.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
#include <stdio.h>
PERSISTENT long x __attribute__((aligned(64)));
int main(void) {
  double d = crashproof_nondet_int() * 1.5;
  x = 1; // MARK: unflushed-write
  printf("%f\n", d);
  return 0;
}
void recover(void) { crashproof_assert(x <= 1); }
