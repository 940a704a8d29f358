// What is not modeled may be anything, if that is asked for: here it does not matter.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ prove: proved
#include <crashproof.h>
#include <math.h>
PERSISTENT struct {
  long double exact;
  double half;
  long flag;
} LINE_ __attribute__((aligned(64)));
int main(void) {
  LINE_.exact = 1.5L; // MARK: unflushed-write
  LINE_.half = pow(2, LINE_.exact); // MARK: unflushed-write-2
  LINE_.flag = LINE_.half > 2 ? 1 : 2; // MARK: unflushed-write-3
  return 0;
}
void recover(void) { crashproof_assert(LINE_.flag <= 2); }
