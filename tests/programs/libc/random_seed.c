// rand_r stores the next seed, which nobody flushes or orders.
//@ prove: refuted at claim (seed == 1)
#include <crashproof.h>
#include <stdlib.h>
PERSISTENT unsigned seed __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
int main(void) {
  seed = 1;
  flag = rand_r(&seed) >= 0;

  return 0;
}
void recover(void) {
  if (flag)
    crashproof_assert(seed == 1); // MARK: claim
}
