//! refuted 19 data.value == 42
// x86-64 has no non-temporal store of 2 byte(s): the hint is dropped, and the store is a plain one that nobody flushes.
#include <crashproof.h>
#include <immintrin.h>
PERSISTENT struct {
  short value;
} data __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
int main(void) {
  __builtin_nontemporal_store((short)42, &data.value);
  _mm_sfence();
  flag = 1;
  crashproof_flush(&flag, sizeof flag);
  _mm_sfence();
  return 0;
}
void recover(void) {
  if (flag)
    crashproof_assert(data.value == 42);
}
