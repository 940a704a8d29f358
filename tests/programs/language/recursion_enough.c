//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
PERSISTENT long depth;
static long deeper(long n) { return n <= 0 ? 0 : 1 + deeper(n - 1); }
int main(void) {
  depth = deeper(3); // MARK: unflushed-write
  return 0;
}
void recover(void) { crashproof_assert(depth == 0 || depth == 3); }
