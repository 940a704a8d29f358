// Non-temporal stores, as far as the processor has instructions for them.
// flags: -mavx -mmovdiri -mmovdir64b
// needs: avx
#include "test.h"
#include <immintrin.h>

__attribute__((noinline)) static void all(char *p, float f, double d) {
  _mm_stream_si32((int *)p, 1);
  _mm_stream_si64((long long *)(p + 8), 2);
  _mm_stream_si128((__m128i *)(p + 16), _mm_set1_epi8(3));
  _mm256_stream_ps((float *)(p + 32), _mm256_set1_ps(1.0f));
  _directstoreu_u64(p + 64, 4);
  __builtin_nontemporal_store(p, (char **)(p + 72));
  char line[64] __attribute__((aligned(64))) = "a line";
  _movdir64b(p + 128, line);
  // There is no such instruction for these: plain stores.
  __builtin_nontemporal_store((char)5, p + 80);
  __builtin_nontemporal_store(f, (float *)(p + 84));
  __builtin_nontemporal_store(d, (double *)(p + 88));
  _mm_sfence();
}

int main(void) {
  all(test_pm(), 1.0f, 2.0);
  return 0;
}
