// What is not modelled may be anything, if that is asked for: here it does not matter.
//! options approximate=1
//! holds
#include <crashproof.h>
#include <math.h>
PERSISTENT struct {
  long double exact;
  double half;
  long flag;
} LINE_ __attribute__((aligned(64)));
int main(void) {
  LINE_.exact = 1.5L;
  LINE_.half = pow(2, LINE_.exact);
  LINE_.flag = LINE_.half > 2 ? 1 : 2;
  return 0;
}
void recover(void) { crashproof_assert(LINE_.flag <= 2); }
