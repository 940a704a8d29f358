// A non-temporal store under a mask leaves bytes as they are: what an earlier plain store put there may still be in the cache.
//@ check: unknown (not understood: llvm.x86.sse2.maskmov.dqu)
//@ check: recovery-fails at recovery-fails
//@ lint: unknown (not understood, and may touch PM: llvm.x86.sse2.maskmov.dqu)
//@ lint: unflushed-write at recovery-fails
//@ prove: unknown (maskmov)

#include <assert.h>
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT struct {
  _Alignas(64) char bytes[16];
  _Alignas(64) int committed;
} p;

int main(void) {
  if (p.committed) {
    assert(p.bytes[0] == 1);
    return 0;
  }
  p.bytes[0] = 1; // MARK: recovery-fails
  _mm_maskmoveu_si128(_mm_set1_epi8(2), _mm_set_epi8(-1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), p.bytes);
  _mm_sfence();
  p.committed = 1;
  _mm_clwb(&p.committed);
  _mm_sfence();
  return 0;
}
