//! refuted 8 *r == 0
// A function of the program's own that is called recover, with parameters or static, is not the recovery: main is.
#include <crashproof.h>
PERSISTENT long a __attribute__((aligned(64)));
PERSISTENT long b __attribute__((aligned(64)));
static void recover(long *r) {

  crashproof_assert(*r == 0);
}
int main(void) {
  if (crashproof_crashes()) {
    recover(&b);
    return 0;
  }
  a = 1;
  b = 1;
  return 0;
}
