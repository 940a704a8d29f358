//@ check: clean
//@ lint: unflushed-write at claim
//@ prove: refuted at claim (outside)
#include <crashproof.h>
PERSISTENT long cells[4] __attribute__((aligned(64)));
int main(void) {
  unsigned i = crashproof_nondet_uint();
  crashproof_assume(i < 5);

  cells[i] = 1; // MARK: claim
  return 0;
}
void recover(void) {}
