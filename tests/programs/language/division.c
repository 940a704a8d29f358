//@ check: vacuous
//@ lint: unflushed-write at claim
//@ prove: refuted at claim (the divisor is not 0)
#include <crashproof.h>
PERSISTENT long x;
int main(void) {
  int d = crashproof_nondet_int();
  x = 10 / d; // MARK: claim
  return 0;
}
void recover(void) {}
