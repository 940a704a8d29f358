//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim (outside)
#include <crashproof.h>
PERSISTENT struct { long *p; } a __attribute__((aligned(64)));
PERSISTENT struct { long ready; } b __attribute__((aligned(64)));
int main(void) {
  a.p = crashproof_alloc(8); // MARK: recovery-fails
  b.ready = 1; // MARK: unflushed-write
  return 0;
}
void recover(void) {
  if (b.ready)
    *a.p = 1; // MARK: claim
}
