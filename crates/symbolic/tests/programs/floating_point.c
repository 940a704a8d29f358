// It matters here: the result goes to persistent memory.
//! unknown 9 floating-point
#include <crashproof.h>
PERSISTENT long x;
int main(void) {
  double d = crashproof_nondet_int();

  d = d * 1.5;
  x = (long)d;
  return 0;
}
void recover(void) {}
