//! unknown 10 llvm.x86.avx2.maskstore
// A store of some lanes is not modeled, so nothing is said about what it leaves.
#include <crashproof.h>
#include <immintrin.h>
PERSISTENT long long a[4] __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
__attribute__((target("avx2"))) int main(void) {
  __m256i some = _mm256_set_epi64x(0, -1, 0, -1), value = _mm256_set1_epi64x(42);

  _mm256_maskstore_epi64(a, some, value);
  flag = 1;
  return 0;
}
void recover(void) {
  if (flag)
    crashproof_assert(a[0] == 42);
}
