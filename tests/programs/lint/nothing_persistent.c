// A verdict about nothing is none. What would count as persistent memory is said.
//@ cflags: -mclwb
//@ lint: vacuous
//@ prove: vacuous
//@ variant nothing: -DNOTHING
//@ check: vacuous
//@ variant heap: -DHEAP
//@ check: vacuous
#include <immintrin.h>
#include <stdlib.h>

static long value;

int main(void) {
#ifdef HEAP
  long *copy = malloc(sizeof *copy);
  *copy = 1;
  _mm_clwb(copy);
  _mm_sfence();
#endif
  value = 1;
  return 0;
}
