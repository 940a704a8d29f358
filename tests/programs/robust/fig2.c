// PSan, Figure 2: r1 = 1 and r2 = 2 cannot be read after a crash of a machine without caches. Nothing fails.
// Each store of x needs its flush.
//@ prove: vacuous
//@ variant plain:
//@ check: missing-flush at X1, survived Y1, window X1..Y1, primary
//@ check: missing-flush at Y1, survived X2, window Y1..X2, primary
//@ check: missing-flush at X2, survived Y2, window X2..Y2, primary
//@ lint: unflushed-write at X2
//@ robust: refuted at X1
//@ variant fixed: -DFIXED
//@ check: clean
//@ lint: clean, no warnings
//@ robust: proved
//@ variant fence-forgotten: -DFENCE_FORGOTTEN
//@ check: missing-flush at X2, survived Y2, window X2..Y2, primary
//@ lint: clean, no warnings
//@ robust: refuted at X2
//@ variant late: -DLATE
//@ check: missing-flush at X2, survived Y2, window X2..Y2, primary
//@ lint: clean, no warnings
//@ robust: refuted at X2
//@ variant robust-off: -DROBUST_OFF
//@ flags check: --no-robust
//@ check: clean
//@ lint: unflushed-write at X2
//@ robust: refuted at X1

#include <crashproof.h>
#include <immintrin.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) x, y;

int main(void) {
  if (!crashproof_crashes()) {
    x.at = 1; // MARK: X1
#if defined FIXED || defined FENCE_FORGOTTEN || defined LATE
    crashproof_persist(&x, 8);
#endif
    y.at = 1; // MARK: Y1
#if defined FIXED || defined FENCE_FORGOTTEN || defined LATE
    crashproof_persist(&y, 8);
#endif
    x.at = 2; // MARK: X2
#ifdef FIXED
    crashproof_persist(&x, 8);
#endif
#ifdef FENCE_FORGOTTEN
    crashproof_flush(&x, 8); // MARK: FLUSH
#endif
    y.at = 2; // MARK: Y2
#ifdef LATE
    crashproof_persist(&x, 8); // MARK: LATE
#endif
    crashproof_persist(&y, 8); // MARK: PERSIST_Y
    return 0;
  }
  volatile long r1 = x.at;
  volatile long r2 = y.at;
  (void)r1, (void)r2;
  return 0;
}
