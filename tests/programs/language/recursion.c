//@ flags prove: --recursion 3
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: unknown at not-modeled (calls itself more than 3 times)
#include <crashproof.h>
PERSISTENT long depth;

static long deeper(long n) { // MARK: not-modeled
  return n <= 0 ? 0 : 1 + deeper(n - 1);
}
int main(void) {
  depth = deeper(crashproof_nondet_int()); // MARK: unflushed-write
  return 0;
}
void recover(void) {}
