// A pair of which the second value says that the first is there.
#include <crashproof.h>
#include <immintrin.h>
#include <string.h>

PERSISTENT static struct {
  _Alignas(64) long data;
  _Alignas(64) long ready;
} pair;

int main(int count, char **words) {
  if (count < 2 || !strcmp(words[1], "fails"))
    return 1;
  if (!strcmp(words[1], "volatile"))
    return 0;
  if (pair.ready && pair.data != 42)
    return 1;
  pair.data = 42; // MARK: lost
  if (!strcmp(words[1], "flushed")) {
    _mm_clflush(&pair.data);
    _mm_sfence();
  }
  pair.ready = 1;
  _mm_clflush(&pair.ready);
  _mm_sfence();
  return 0;
}
