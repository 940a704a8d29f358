// The intrinsics of persistent memory compile without target features on the command line, for every engine.
//@ variant flushed: -DFLUSHED
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant lost: -DLOST
//@ check: fails at lost
//@ lint: fails at lost
//@ prove: refuted at claim-violated
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT struct {
  long data, padding[7], flag;
} p;

void recover(void) {
  if (p.flag)
    crashproof_assert(p.data == 42); // MARK: claim-violated
}

int main(void) {
  if (crashproof_crashes()) {
    recover();
    return 0;
  }
  p.data = 42; // MARK: lost
#ifdef FLUSHED
  _mm_clwb(&p.data);
  _mm_sfence();
#endif
  p.flag = 1;
  _mm_clflushopt(&p.flag);
  _mm_sfence();
  return 0;
}
