// Flush and fence intrinsics. On volatile memory flushes run as they are.
// flags: -mclflushopt -mclwb
// needs: clflushopt clwb
#include "test.h"
#include <immintrin.h>

__attribute__((noinline)) static void all(char *p) {
  *p = 1;
  _mm_clflush(p);
  _mm_clflushopt(p + 64);
  _mm_clwb(p + 128);
  _mm_sfence();
  _mm_mfence();
  _mm_lfence();
  __sync_synchronize();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
  _mm_pause();
}

int main(void) {
  static char in_dram[256];
  all(test_pm());
  test_say("volatile memory:");
  all(in_dram);
  return 0;
}
