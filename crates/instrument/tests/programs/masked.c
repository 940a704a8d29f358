// AVX masked moves.
// flags: -mavx2
// needs: avx2
#include "test.h"
#include <immintrin.h>

__attribute__((noinline)) static void masked(int *p) {
  __m128i mask = _mm_set_epi32(-1, 0, -1, 0);
  _mm_maskstore_epi32(p, mask, _mm_set_epi32(4, 3, 2, 1));
  __m128i back = _mm_maskload_epi32(p, mask);
  CHECK(_mm_extract_epi32(back, 0) == 0 && _mm_extract_epi32(back, 1) == 2);
  CHECK(_mm_extract_epi32(back, 2) == 0 && _mm_extract_epi32(back, 3) == 4);
  _mm256_maskstore_pd((double *)(p + 8), _mm256_set_epi64x(0, -1, 0, -1), _mm256_set1_pd(1.0));
}

__attribute__((noinline)) static int gathered(const int *p) {
  __m128i all = _mm_i32gather_epi32(p, _mm_set_epi32(3, 0, 1, 0), 4);
  __m128i some = _mm_mask_i32gather_epi32(_mm_set1_epi32(6), p, _mm_set1_epi32(1), _mm_set_epi32(0, 0, 0, -1), 4);
  return _mm_extract_epi32(all, 3) * 10 + _mm_extract_epi32(some, 0) + _mm_extract_epi32(some, 1);
}

int main(void) {
  int in_dram[16];
  masked((int *)test_pm());
  CHECK(gathered((int *)test_pm()) == 48);
  masked(in_dram);
  CHECK(gathered(in_dram) == 48);
  return 0;
}
