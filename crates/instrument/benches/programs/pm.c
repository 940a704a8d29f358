// PM itself: one store and one load for each of the N operations, through a runtime that only performs them.
#include "bench.h"

enum { N = 1000000 };
char *test_pm(void);
static uint64_t *pm;

static void prepare(void) { pm = (uint64_t *)test_pm(); }

static uint64_t run(void) {
  uint64_t sum = 0;
  for (int i = 0; i < N / 2; i++) {
    pm[i % 512] = (uint64_t)i;
    sum += pm[(i * 7) % 512];
  }
  return sum;
}
