// A pair of which the second value says that the first is there.
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT static struct {
  _Alignas(64) long data;
  _Alignas(64) long ready;
} pair;

static int run(int flushes) {
  if (pair.ready && pair.data != 42)
    return 1;
  pair.data = 42;
  if (flushes) {
    _mm_clflush(&pair.data);
    _mm_sfence();
  }
  pair.ready = 1;
  _mm_clflush(&pair.ready);
  _mm_sfence();
  return 0;
}
