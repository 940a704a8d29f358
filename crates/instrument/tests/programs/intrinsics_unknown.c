// Intrinsics without a meaning in the model are told to the runtime only if they are given PM.
// flags: -mavx2 -mfxsr
// needs: avx2
#include "test.h"
#include <immintrin.h>

__attribute__((noinline)) static void all(char *p, __m128i v) {
  _mm_maskmoveu_si128(v, v, p);
  _fxsave64(p + 64);
}

int main(void) {
  static char in_dram[1024] __attribute__((aligned(16)));
  all(test_pm(), _mm_set1_epi8(-1));
  all(in_dram, _mm_setzero_si128());
  return 0;
}
