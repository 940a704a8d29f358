// A function that returns null, as those of threads do, has not failed for that.
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: refuted at claim
#include <crashproof.h>
PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
static void *set(void) {
  data = 1; // MARK: lost
  flag = 1;
  crashproof_persist(&flag, sizeof flag);
  return 0;
}
int main(void) {
  set();
  return 0;
}
void recover(void) {
  if (flag)
    crashproof_assert(data == 1); // MARK: claim
}
