// PSan, Figures 4 and 5: reading y = 2 and x = 5. The flush is missing after y = 4; and, seen by other crashes,
// after all stores but the last.
//@ check: missing-flush at X1, survived Y2, window X1..Y2, primary
//@ check: missing-flush at Y2, survived X3, window Y2..X3, primary
//@ check: missing-flush at X3, survived Y4, window X3..Y4, primary
//@ check: missing-flush at Y4, survived X5, window Y4..X5, primary
//@ lint: unflushed-write at Y4
//@ lint: unflushed-write at X5
//@ prove: vacuous
//@ robust: refuted at X1

#include <crashproof.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) x, y;

int main(void) {
  if (!crashproof_crashes()) {
    x.at = 1; // MARK: X1
    y.at = 2; // MARK: Y2
    x.at = 3; // MARK: X3
    y.at = 4; // MARK: Y4
    x.at = 5; // MARK: X5
    return 0;
  }
  volatile long r1 = y.at;
  volatile long r2 = x.at;
  (void)r1, (void)r2;
  return 0;
}
