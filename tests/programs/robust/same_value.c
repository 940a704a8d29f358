// What is lost was there before: nothing can come of it, but the next version of the program may store something
// else.
//@ check: missing-flush at AGAIN, survived Y, window AGAIN..Y, primary
//@ lint: unflushed-write at AGAIN
//@ prove: vacuous
//@ robust: proved (known wrong: x holds the same value before and after)

#include <crashproof.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) x = {7}, y;

int main(void) {
  if (!crashproof_crashes()) {
    x.at = 7; // MARK: AGAIN
    y.at = 1; // MARK: Y
    crashproof_persist(&y, 8);
    return 0;
  }
  volatile long r1 = x.at;
  volatile long r2 = y.at;
  (void)r1, (void)r2;
  return 0;
}
