// A copy to an address that may not be a multiple of a word is one of bytes. Nothing is claimed of it.
//@ check: clean
//@ lint: unflushed-write at not-modeled
//@ prove: vacuous
#include <crashproof.h>
PERSISTENT char buffer[64] __attribute__((aligned(64)));
int main(void) {
  unsigned i = crashproof_nondet_uint();
  crashproof_assume(i < 32);
  __builtin_memset(buffer + i, 1, 16); // MARK: not-modeled
  return 0;
}
void recover(void) {}
