// Block copies and fills, between PM and volatile memory in all directions.
#include "test.h"
#include <string.h>

struct big { long a[12]; };

__attribute__((noinline)) static void blocks(struct big *pm, struct big *other, unsigned long n) {
  *pm = *other; // structure assignment is a memcpy
  *other = *pm;
  pm[1] = pm[0];
  memcpy(pm, other, n);
  memmove((char *)pm + 8, pm, n);
  memset(pm, 0x5a, n);
  __builtin_memcpy_inline(pm, other, 64);
  __builtin_memset_inline(pm, 1, 32);
}

int main(void) {
  struct big in_dram = {{1, 2, 3}};
  blocks(PM(struct big, 0), &in_dram, 40);
  struct big a[2] = {{{0}}}, b = {{0}};
  blocks(a, &b, 16); // silent, since nothing is in PM
  return 0;
}
