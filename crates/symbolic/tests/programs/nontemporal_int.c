//! holds
// A non-temporal store is persistent once a fence has completed.
#include <crashproof.h>
#include <immintrin.h>
PERSISTENT struct {
  int value;
} data __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
int main(void) {
  __builtin_nontemporal_store((int)42, &data.value);
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
