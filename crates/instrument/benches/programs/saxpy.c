// The vectorised loop: y = a * x + y.
#include "bench.h"

enum { N = 4096 };
static float *x, *y;

static void prepare(void) {
  x = malloc(N * sizeof *x), y = malloc(N * sizeof *y);
  for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 1;
}

__attribute__((noinline)) static void saxpy(float *restrict to, const float *restrict from, float a, int n) {
  for (int i = 0; i < n; i++) to[i] += a * from[i];
}

static uint64_t run(void) {
  for (int round = 0; round < 20000; round++) saxpy(y, x, 1e-6f, N);
  return (uint64_t)y[N / 2];
}
