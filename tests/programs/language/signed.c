// Signed and unsigned arithmetic of narrow types, as C has it.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: proved
#include <crashproof.h>
PERSISTENT signed char c __attribute__((aligned(64)));
PERSISTENT unsigned short s __attribute__((aligned(64)));
int main(void) {
  int a = crashproof_nondet_int();
  crashproof_assume(a >= -3 && a <= 3);
  c = (signed char)(a * 30); // MARK: unflushed-write
  s = (unsigned short)(a / 2); // MARK: unflushed-write-2
  return 0;
}
void recover(void) {
  crashproof_assert(c >= -90 && c <= 90 && c % 30 == 0);
  crashproof_assert(s <= 1 || s == 65535);
}
