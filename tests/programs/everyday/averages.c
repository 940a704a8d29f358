// Floating-point statistics that no claim depends on, beside counters that matter.
//@ args: {dir}/stats
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at line-3
//@ prove: refuted at claim

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

struct stats {
  uint64_t samples;
  uint64_t total;
  double mean;
  double max;
};

static void persist(const void *p, size_t n) {
  for (uintptr_t a = (uintptr_t)p & ~63ul; a < (uintptr_t)p + n; a += 64)
    _mm_clwb((void *)a);
  _mm_sfence();
}

static void sample(struct stats *s, uint64_t value) {
  s->mean = (s->mean * (double)s->samples + (double)value) / (double)(s->samples + 1);
  if ((double)value > s->max)
    s->max = (double)value;
#if BUG == 1
  s->samples += 1; // MARK: samples-early
  s->total += value; // MARK: line-3
#else
  s->total += value; // MARK: total
  s->samples += 1;
#endif
  persist(s, sizeof *s);
}

int main(int argc, char **argv) {
  int fd = open(argv[argc > 1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(struct stats)) != 0)
    return 1;
  struct stats *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (s == MAP_FAILED)
    return 1;
  assert(s->total >= 3 * s->samples); // MARK: claim
  printf("%lu samples, mean %.2f\n", s->samples, s->mean);
  if (s->samples < 3) {
    sample(s, 3);
    sample(s, 5);
  }
  return 0;
}
