// Vector loads and stores, written by hand and made by the vectoriser.
// flags: -mavx2
// needs: avx2
#include "test.h"
#include <immintrin.h>

typedef int v2 __attribute__((vector_size(8)));
typedef char v4 __attribute__((vector_size(4)));

__attribute__((noinline)) static void by_hand(char *p) {
  *(v4 *)p = (v4){1, 2, 3, 4};
  *(v2 *)(p + 8) = (v2){5, 6};
  _mm_store_si128((__m128i *)(p + 16), _mm_set1_epi32(7));
  _mm256_storeu_si256((__m256i *)(p + 32), _mm256_set1_epi8(8));
  __m128i a = _mm_load_si128((__m128i *)(p + 16));
  __m256i b = _mm256_lddqu_si256((__m256i *)(p + 32));
  CHECK(_mm_cvtsi128_si32(a) == 7);
  CHECK(_mm256_extract_epi8(b, 31) == 8);
}

int main(void) {
  char on_stack[64] __attribute__((aligned(32)));
  by_hand(test_pm());
  by_hand(on_stack);
  return 0;
}
