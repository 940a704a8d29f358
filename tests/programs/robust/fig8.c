// PSan, Figure 8: two crashes. The first recovery reads that x was lost, the second one y, which was stored after
// it. Neither alone sees anything wrong.
//@ lint: unflushed-write at X
//@ lint: unflushed-write at Y
//@ lint: unflushed-write at unflushed-write
//@ prove: vacuous
//@ robust: refuted at X
//@ variant plain:
//@ flags check: --crashes 1
//@ check: clean
//@ variant plain-2:
//@ flags check: --crashes 2
//@ check: missing-flush at X, survived Y, window X..Y, primary

#include <crashproof.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) x, y;

int main(void) {
  switch (crashproof_crashes()) {
  case 0:
    x.at = 1; // MARK: X
    y.at = 1; // MARK: Y
    return 0;
  case 1: {
    volatile long r = x.at;
    (void)r;
    y.at = 2; // MARK: unflushed-write
    return 0;
  }
  default: {
    volatile long s = y.at;
    (void)s;
    return 0;
  }
  }
}
