#include <crashproof.h>
#include <immintrin.h>
#include <stdint.h>
static void flush_range(const void *p, size_t n) {
  for (uintptr_t a = (uintptr_t)p & ~63ul; a < (uintptr_t)p + n; a += 64)
    _mm_clwb((void *)a);
}
static void fence(void) { _mm_sfence(); }
struct acct { _Alignas(64) int64_t balance[16]; _Alignas(64) uint64_t version; };
static void update(struct acct *a, int i, int64_t v) {
  a->balance[i] = v;
  flush_range(&a->balance[i], sizeof a->balance[i]);
  a->version++;
  flush_range(&a->version, sizeof a->version);
  fence();
}
int main(void) {
  struct acct *a = crashproof_root(sizeof *a);
  if (crashproof_crashes()) {
    for (uint64_t i = 0; i < a->version; i++) crashproof_assert(a->balance[i * 8] == 5);
    return 0;
  }
  update(a, 0, 5);
  update(a, 8, 5);
  return 0;
}
