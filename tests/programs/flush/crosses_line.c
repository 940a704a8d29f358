// An access over two lines is two for the machine; where it goes is not known, so neither is where it is cut.
//@ check: clean
//@ lint: unflushed-write at not-modeled
//@ prove: unknown at not-modeled (crosses a cache line)
#include <crashproof.h>
PERSISTENT struct {
  char bytes[128];
} place __attribute__((aligned(64)));
typedef long unaligned __attribute__((aligned(1)));
int main(void) {
  unsigned i = crashproof_nondet_uint();
  crashproof_assume(i < 2);
  *(unaligned *)(place.bytes + 56 + 4 * i) = -1; // MARK: not-modeled
  return 0;
}
void recover(void) {}
