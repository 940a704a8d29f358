// PSan, Figure 2: r1 = 1 and r2 = 2 cannot be read after a crash of a machine without caches. Nothing fails.
// Each store of x needs its flush.
//
// run:
// error lost=X1 survived=Y1 window=X1..Y1 primary new never
// error lost=Y1 survived=X2 window=Y1..X2 primary old late=PERSIST_Y
// error lost=X2 survived=Y2 window=X2..Y2 primary new never
// run: -DFIXED
// none
// run: -DFENCE_FORGOTTEN
// error lost=X2 survived=Y2 window=X2..Y2 primary new unfenced=FLUSH
// run: -DLATE
// error lost=X2 survived=Y2 window=X2..Y2 primary new late=LATE
// run: -DROBUST_OFF
// off

#include <crashproof.h>
#include <immintrin.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) x, y;

int main(void) {
  if (!crashproof_crashes()) {
    x.at = 1; // X1
#if defined FIXED || defined FENCE_FORGOTTEN || defined LATE
    crashproof_persist(&x, 8);
#endif
    y.at = 1; // Y1
#if defined FIXED || defined FENCE_FORGOTTEN || defined LATE
    crashproof_persist(&y, 8);
#endif
    x.at = 2; // X2
#ifdef FIXED
    crashproof_persist(&x, 8);
#endif
#ifdef FENCE_FORGOTTEN
    crashproof_flush(&x, 8); // FLUSH
#endif
    y.at = 2; // Y2
#ifdef LATE
    crashproof_persist(&x, 8); // LATE
#endif
    crashproof_persist(&y, 8); // PERSIST_Y
    return 0;
  }
  volatile long r1 = x.at;
  volatile long r2 = y.at;
  (void)r1, (void)r2;
  return 0;
}
