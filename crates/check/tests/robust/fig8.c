// PSan, Figure 8: two crashes. The first recovery reads that x was lost, the second one y, which was stored after
// it. Neither alone sees anything wrong.
//
// run: crashes=1
// none
// run: crashes=2
// error lost=X survived=Y window=X..Y primary new never

#include <crashproof.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) x, y;

int main(void) {
  switch (crashproof_crashes()) {
  case 0:
    x.at = 1; // X
    y.at = 1; // Y
    return 0;
  case 1: {
    volatile long r = x.at;
    (void)r;
    y.at = 2;
    return 0;
  }
  default: {
    volatile long s = y.at;
    (void)s;
    return 0;
  }
  }
}
