// A copy to an address that is not known is one of words only if the address is a multiple of a word.
//@ check: clean
//@ lint: unflushed-write at not-modelled
//@ prove: unknown at not-modelled (may not be a multiple of 8)
#include <crashproof.h>
PERSISTENT char buffer[64] __attribute__((aligned(64)));
int main(void) {
  unsigned i = crashproof_nondet_uint();
  crashproof_assume(i < 32);
  __builtin_memset(buffer + i, 1, 16); // MARK: not-modelled
  return 0;
}
void recover(void) {}
