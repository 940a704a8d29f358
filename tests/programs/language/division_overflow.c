// The least number divided by -1 does not fit, which is a trap.
//@ check: clean
//@ lint: unflushed-write at claim
//@ prove: refuted at claim (the quotient fits)
#include <crashproof.h>
PERSISTENT long quotient;
int main(void) {
  int a = crashproof_nondet_int(), b = crashproof_nondet_int() | 1;
  quotient = a / b; // MARK: claim
  return 0;
}
void recover(void) {}
