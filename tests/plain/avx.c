// Vectors of 32 bytes, also masked.
#include "pool.h"
struct s { int v[32]; int valid; };
__attribute__((target("avx2"))) static void fill(int *to) {
  for (int i = 0; i < 32; i += 8)
    _mm256_storeu_si256((__m256i *)(to + i), _mm256_set1_epi32(i + 1)); // MARK
}
__attribute__((target("avx2"))) static void some(int *to) {
  __m256i mask = _mm256_setr_epi32(-1, 0, -1, 0, 0, 0, 0, -1);
  _mm256_maskstore_epi32(to, mask, _mm256_set1_epi32(1));
}
int main(void) {
  struct s *s = pool(4096);
  if (s->valid) {
    for (int i = 0; i < 32; i++)
      assert(s->v[i] == i / 8 * 8 + 1);
    return 0;
  }
  fill(s->v);
  some(s->v);
  persist(s->v, 64);
  CORRECT(persist(s->v + 16, 64));
  s->valid = 1;
  persist(&s->valid, 4);
}
