// It matters here: the result goes to persistent memory.
//@ check: clean
//@ lint: unflushed-write at not-modelled
//@ prove: proved
#include <crashproof.h>
PERSISTENT long x;
int main(void) {
  double d = crashproof_nondet_int();

  d = d * 1.5;
  x = (long)d; // MARK: not-modelled
  return 0;
}
void recover(void) {}
