// The same functions, flushed: what they return and how far they write is known well enough.
//@ check: clean
//@ lint: clean
//@ prove: skip (not the question here)

#define _GNU_SOURCE
#include <assert.h>
#include <crashproof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PERSISTENT struct {
  _Alignas(64) char a[16];
  char b[16];
  char c[32];
  _Alignas(64) int numbers[4];
  _Alignas(64) int committed;
} p;

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(void) {
  if (p.committed) {
    assert(!strcmp(p.a, "1") && !strcmp(p.b, "ab") && p.c[0] == 'x');
    return 0;
  }
  int written = snprintf(p.a, sizeof p.a, "%d", 1);
  crashproof_persist(p.a, (size_t)written + 1);
  char *end = mempcpy(p.b, "a", 1);
  end = stpcpy(end, "b");
  crashproof_persist(p.b, (size_t)(end - p.b) + 1);
  strncpy(p.c, "x", sizeof p.c);
  crashproof_persist(p.c, sizeof p.c);
  qsort(p.numbers, 4, sizeof(int), compare);
  crashproof_persist(p.numbers, sizeof p.numbers);
  p.committed = 1;
  crashproof_persist(&p.committed, sizeof p.committed);
  return 0;
}
