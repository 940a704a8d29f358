// Loops the vectoriser makes gathers and scatters of.
// flags: -mavx512f -mavx512vl -mprefer-vector-width=512
// needs: avx512f avx512vl
#include "test.h"

__attribute__((noinline)) static void pick(int *restrict to, const int *restrict from, const int *restrict at) {
#pragma clang loop vectorize(assume_safety)
  for (int i = 0; i < 16; i++) to[i] = from[at[i]] + 1;
}

__attribute__((noinline)) static void spread(int *restrict to, const int *restrict from, const int *restrict at) {
#pragma clang loop vectorize(assume_safety)
  for (int i = 0; i < 16; i++) to[at[i]] = from[i];
}

int main(void) {
  static int at[16], numbers[16];
  for (int i = 0; i < 16; i++) at[i] = (i * 3) % 16, numbers[i] = at[i];
  spread((int *)test_pm(), numbers, at);
  pick(numbers, (int *)test_pm(), at);
  for (int i = 0; i < 16; i++) CHECK(numbers[i] == at[i] + 1);
  spread(numbers, at, at);
  for (int i = 0; i < 16; i++) CHECK(numbers[i] == i);
  return 0;
}
