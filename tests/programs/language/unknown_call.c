//@ check: skip (it cannot be linked: what it uses is nowhere)
//@ lint: unflushed-write at not-modeled
//@ prove: unknown at not-modeled (`mystery`, which is not defined here)
#include <crashproof.h>
long mystery(long);
PERSISTENT long x;
int main(void) {
  x = mystery(1); // MARK: not-modeled
  return 0;
}
void recover(void) {}
