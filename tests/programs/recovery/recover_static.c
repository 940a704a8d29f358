// A static function called recover is not the recovery: main is.
//@ check: clean
//@ lint: unflushed-write at store
//@ prove: proved
#include <crashproof.h>
PERSISTENT long a __attribute__((aligned(64)));
static long *found;
static void recover(void) { crashproof_assert(*found == 0 || *found == 1); }
int main(void) {
  if (crashproof_crashes()) {
    found = &a;
    recover();
    return 0;
  }
  a = 1; // MARK: store
  return 0;
}
