// rand_r stores the next seed, which nobody flushes or orders.
//@ check: unknown (rand_r touches persistent memory and is not followed there)
//@ check: recovery-fails at recovery-fails
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
