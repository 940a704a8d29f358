// rand_r stores the next seed, which nobody flushes or orders.
//@ check: recovery-fails-nothing-lost at unflushed-write
//@ check: missing-flush at unflushed-write
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim (seed == 1)
#include <crashproof.h>
#include <stdlib.h>
PERSISTENT unsigned seed __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
int main(void) {
  seed = 1; // MARK: recovery-fails
  flag = rand_r(&seed) >= 0; // MARK: unflushed-write

  return 0;
}
void recover(void) {
  if (flag)
    crashproof_assert(seed == 1); // MARK: claim
}
