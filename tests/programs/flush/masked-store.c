// Masked vector stores are stores of their lanes.
//@ cflags: -mavx2 -mavx512f -mavx512vl -mclwb
//@ variant LOST: -DLOST
//@ check: fails
//@ lint: unflushed-write at stored
//@ prove: unknown (maskstore)
//@ variant FLUSHED: -DFLUSHED
//@ check: clean
//@ lint: clean
//@ prove: unknown (maskstore)

#include <assert.h>
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT struct {
  _Alignas(64) long long lanes[4];
  _Alignas(64) int committed;
} p;

int main(void) {
  if (p.committed) {
    assert(p.lanes[0] == 7);
    return 0;
  }
  _mm256_maskstore_epi64(p.lanes, _mm256_set1_epi64x(-1), _mm256_set1_epi64x(7)); /* MARK: stored */
#ifdef FLUSHED
  _mm_clwb(p.lanes);
#endif
  _mm_sfence();
  p.committed = 1;
  _mm_clwb(&p.committed);
  _mm_sfence();
  return 0;
}
