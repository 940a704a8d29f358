// It matters here: the result goes to persistent memory.
//@ check: clean
//@ lint: unflushed-write at not-modeled
//@ prove: vacuous
#include <crashproof.h>
PERSISTENT long x;
int main(void) {
  double d = crashproof_nondet_int();

  d = d * 1.5;
  x = (long)d; // MARK: not-modeled
  return 0;
}
void recover(void) {}
