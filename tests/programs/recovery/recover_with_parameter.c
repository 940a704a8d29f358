// A function called recover that takes an argument is the program's own business: main runs after a crash.
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ lint: unflushed-write at flag
//@ prove: refuted at claim
#include <crashproof.h>
PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
static void recover(long *seen) {
  crashproof_assert(!*seen || data == 1); // MARK: claim
}
int main(void) {
  if (crashproof_crashes()) {
    recover(&flag);
    return 0;
  }
  data = 1; // MARK: lost
  flag = 1; // MARK: flag
  return 0;
}
