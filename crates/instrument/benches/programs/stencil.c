// A vectorised loop with several loads for each store.
#include "bench.h"

enum { N = 4096 };
static float *from, *to;

static void prepare(void) {
  from = calloc(N, sizeof *from), to = calloc(N, sizeof *to);
  for (int i = 0; i < N; i++) from[i] = (float)(next_random() % 100);
}

__attribute__((noinline)) static void step(float *restrict b, const float *restrict a, int n) {
  for (int i = 2; i < n - 2; i++) b[i] = 0.2f * (a[i - 2] + a[i - 1] + a[i] + a[i + 1] + a[i + 2]);
}

static uint64_t run(void) {
  for (int round = 0; round < 10000; round++) step(to, from, N), step(from, to, N);
  return (uint64_t)from[N / 2];
}
