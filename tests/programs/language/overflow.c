// Arithmetic that tells whether it overflowed, in all widths; rotations and saturation come out of such code, too.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <limits.h>
PERSISTENT long reached;
int main(void) {
  int i;
  long l;
  unsigned char c;
  unsigned long u;
  int a = crashproof_nondet_int(), b = crashproof_nondet_int();
  long wide = (long)a + b;
  crashproof_assert(__builtin_add_overflow(a, b, &i) == (wide != (int)wide) && i == (int)wide);
  wide = (long)a - b;
  crashproof_assert(__builtin_sub_overflow(a, b, &i) == (wide != (int)wide) && i == (int)wide);
  crashproof_assume(a > -20 && a < 20 && b > -20 && b < 20);
  crashproof_assert(__builtin_mul_overflow((unsigned char)a, (unsigned char)b, &c) ==
                    ((unsigned char)a * (unsigned char)b > 255));
  crashproof_assert(!__builtin_mul_overflow(a, b, &i) && i == a * b);
  crashproof_assert(__builtin_mul_overflow(LONG_MIN, -1l, &l) && __builtin_mul_overflow(-1l, LONG_MIN, &l));
  crashproof_assert(!__builtin_mul_overflow(LONG_MIN, 1l, &l) && l == LONG_MIN);
  crashproof_assert(__builtin_mul_overflow(1ul << 40, 1ul << 30, &u) && !__builtin_mul_overflow(0ul, ~0ul, &u));
  crashproof_assert(__builtin_sub_overflow(LONG_MIN, 1l, &l) && __builtin_add_overflow(LONG_MAX, 1l, &l));
  reached = 1;
  crashproof_persist(&reached, sizeof reached);
  return 0;
}
void recover(void) {}
