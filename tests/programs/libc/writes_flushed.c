// The same functions, flushed: what they return and how far they write is known well enough.
//@ check: clean
//@ lint: clean
//@ prove: skip (not the question here)

#include <assert.h>
#include <crashproof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PERSISTENT _Alignas(64) char a[16];
PERSISTENT _Alignas(64) char b[16];
PERSISTENT _Alignas(64) char c[32];
PERSISTENT _Alignas(64) int numbers[4];
PERSISTENT _Alignas(64) int committed;

static int compare(const void *one, const void *other) { return *(const int *)one - *(const int *)other; }

int main(void) {
  if (committed) {
    assert(!strcmp(a, "1") && !strcmp(b, "ab") && c[0] == 'x');
    return 0;
  }
  int written = snprintf(a, sizeof a, "%d", 1);
  crashproof_persist(a, (size_t)written + 1);
  char *end = mempcpy(b, "a", 1);
  end = stpcpy(end, "b");
  crashproof_persist(b, (size_t)(end - b) + 1);
  strncpy(c, "x", sizeof c);
  crashproof_persist(c, sizeof c);
  qsort(numbers, 4, sizeof(int), compare);
  crashproof_persist(numbers, sizeof numbers);
  committed = 1;
  crashproof_persist(&committed, sizeof committed);
  return 0;
}
