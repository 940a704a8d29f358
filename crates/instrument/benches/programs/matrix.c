// Matrix product, vectorised over the inner loop.
#include "bench.h"

enum { N = 160 };
static double *a, *b, *c;

static void prepare(void) {
  a = malloc(N * N * 8), b = malloc(N * N * 8), c = malloc(N * N * 8);
  for (int i = 0; i < N * N; i++) a[i] = i % 7, b[i] = i % 5;
}

static uint64_t run(void) {
  memset(c, 0, N * N * 8);
  for (int round = 0; round < 4; round++)
    for (int i = 0; i < N; i++)
      for (int k = 0; k < N; k++)
        for (int j = 0; j < N; j++) c[i * N + j] += a[i * N + k] * b[k * N + j];
  return (uint64_t)c[N];
}
