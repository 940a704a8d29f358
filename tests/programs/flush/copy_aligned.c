// The same, where it is.
//@ flags prove: --unwind 8
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
PERSISTENT char buffer[64] __attribute__((aligned(64)));
int main(void) {
  unsigned i = crashproof_nondet_uint();
  crashproof_assume(i < 4);
  __builtin_memset(buffer + 8 * i, 1, 16); // MARK: unflushed-write
  return 0;
}
void recover(void) {
  for (int i = 0; i < 64; i += 8)
    crashproof_assert(buffer[i] == buffer[i + 7]);
}
