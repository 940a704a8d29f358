// Quicksort with insertion sort below 16.
#include "bench.h"

enum { N = 300000 };
static uint32_t *input, *work;

static void prepare(void) {
  input = malloc(N * sizeof *input), work = malloc(N * sizeof *work);
  for (int i = 0; i < N; i++) input[i] = (uint32_t)next_random();
}

static void sort(uint32_t *a, long n) {
  while (n > 16) {
    uint32_t pivot = a[n / 2];
    long i = 0, j = n - 1;
    for (;; i++, j--) {
      while (a[i] < pivot) i++;
      while (a[j] > pivot) j--;
      if (i >= j) break;
      uint32_t t = a[i];
      a[i] = a[j], a[j] = t;
    }
    sort(a, i);
    a += i, n -= i;
  }
  for (long i = 1; i < n; i++) {
    uint32_t v = a[i];
    long j = i;
    for (; j > 0 && a[j - 1] > v; j--) a[j] = a[j - 1];
    a[j] = v;
  }
}

static uint64_t run(void) {
  memcpy(work, input, N * sizeof *work);
  sort(work, N);
  return work[N / 2];
}
