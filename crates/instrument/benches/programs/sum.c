// A vectorised reduction.
#include "bench.h"

enum { N = 8192 };
static int *x;

static void prepare(void) {
  x = malloc(N * sizeof *x);
  for (int i = 0; i < N; i++) x[i] = (int)next_random();
}

__attribute__((noinline)) static int sum(const int *from, int n) {
  int s = 0;
  for (int i = 0; i < n; i++) s += from[i] > 0 ? from[i] : 3;
  return s;
}

static uint64_t run(void) {
  uint64_t total = 0;
  for (int round = 0; round < 10000; round++) {
    x[round % N]++;
    total += (uint64_t)sum(x, N);
  }
  return total;
}
