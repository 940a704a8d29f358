//! options recursion=3
//! unknown 6 calls itself more than 3 times
#include <crashproof.h>
PERSISTENT long depth;

static long deeper(long n) {
  return n <= 0 ? 0 : 1 + deeper(n - 1);
}
int main(void) {
  depth = deeper(crashproof_nondet_int());
  return 0;
}
void recover(void) {}
