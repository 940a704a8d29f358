// PSan, Figures 4 and 5: reading y = 2 and x = 5. The flush is missing after y = 4; and, seen by other crashes,
// after all stores but the last.
//
// run:
// error lost=X1 survived=Y2 window=X1..Y2 primary old never
// error lost=Y2 survived=X3 window=Y2..X3 primary new never
// error lost=X3 survived=Y4 window=X3..Y4 primary old never
// error lost=Y4 survived=X5 window=Y4..X5 primary new never

#include <crashproof.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) x, y;

int main(void) {
  if (!crashproof_crashes()) {
    x.at = 1; // X1
    y.at = 2; // Y2
    x.at = 3; // X3
    y.at = 4; // Y4
    x.at = 5; // X5
    return 0;
  }
  volatile long r1 = y.at;
  volatile long r2 = x.at;
  (void)r1, (void)r2;
  return 0;
}
