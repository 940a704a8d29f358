// AVX-512: masked, compressed and scattered accesses.
// flags: -mavx512f -mavx512vl
// needs: avx512f avx512vl
#include "test.h"
#include <immintrin.h>

__attribute__((noinline)) static void all(int *p, int *q) {
  _mm_mask_storeu_epi32(p, 5, _mm_set_epi32(4, 3, 2, 1));
  __m128i a = _mm_mask_loadu_epi32(_mm_set1_epi32(9), 5, p);
  CHECK(_mm_extract_epi32(a, 0) == 1 && _mm_extract_epi32(a, 1) == 9);
  _mm_mask_compressstoreu_epi32(p + 4, 10, _mm_set_epi32(8, 7, 6, 5));
  __m128i b = _mm_mask_expandloadu_epi32(_mm_setzero_si128(), 6, p + 4);
  CHECK(_mm_extract_epi32(b, 1) == 6 && _mm_extract_epi32(b, 2) == 8);
  __m512i at = _mm512_set1_epi64(3);
  _mm512_mask_i64scatter_epi64(p + 8, 2, at, _mm512_set1_epi64(5), 8);
  for (int i = 0; i < 64; i++) q[i] = i;
}

int main(void) {
  static int in_dram[64];
  all((int *)test_pm(), in_dram);
  return 0;
}
