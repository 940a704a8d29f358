//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim (data == 42)
#include <crashproof.h>
PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
int main(void) {
  data = 42; // MARK: recovery-fails
  flag = 1; // MARK: unflushed-write
  return 0;
}
void recover(void) {
  if (flag)
    crashproof_assert(data == 42); // MARK: claim
}
