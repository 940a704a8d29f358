// Functions of the C library that write to persistent memory, never flushed.
//@ variant SPRINTF: -DSPRINTF
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant SNPRINTF: -DSNPRINTF
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant QSORT: -DQSORT
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ lint: empty-fence at empty-fence
//@ prove: skip (not the question here)
//@ variant MEMPCPY: -DMEMPCPY
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: refuted at claim-violated
//@ variant MEMCCPY: -DMEMCCPY
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant STPNCPY: -DSTPNCPY
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant STRNCAT: -DSTRNCAT
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant BCOPY: -DBCOPY
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant SSCANF: -DSSCANF
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant WMEMCPY: -DWMEMCPY
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)

#define _GNU_SOURCE
#include <assert.h>
#include <crashproof.h>
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wchar.h>

PERSISTENT struct {
  _Alignas(64) union {
    char text[16];
    int numbers[4];
  };
  _Alignas(64) int committed;
} p;

#ifdef QSORT
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
#endif

static void write_it(void) {
#if defined SPRINTF
  sprintf(p.text, "%d", 1); /* MARK: lost */
#elif defined SNPRINTF
  snprintf(p.text, sizeof p.text, "%d", 1); /* MARK: lost */
#elif defined QSORT
  qsort(p.numbers, 4, sizeof(int), compare); /* MARK: lost */
#elif defined MEMPCPY
  mempcpy(p.text, "1", 2); /* MARK: lost */
#elif defined MEMCCPY
  memccpy(p.text, "1", 0, 16); /* MARK: lost */
#elif defined STPNCPY
  stpncpy(p.text, "1", 16); /* MARK: lost */
#elif defined STRNCAT
  strncat(p.text, "1", 3); /* MARK: lost */
#elif defined BCOPY
  bcopy("1", p.text, 2); /* MARK: lost */
#elif defined SSCANF
  sscanf("49", "%d", &p.numbers[0]); /* MARK: lost */
#elif defined WMEMCPY
  wmemcpy((wchar_t *)p.numbers, L"1", 1); /* MARK: lost */
#endif
}

int main(void) {
  if (p.committed) {
    assert(p.text[0] != 0); // MARK: claim-violated
    return 0;
  }
#ifdef QSORT
  p.numbers[3] = -1;
  _mm_clwb(p.numbers);
  _mm_sfence();
#endif
  write_it();
  _mm_sfence(); // MARK: empty-fence
  p.committed = 1;
  _mm_clwb(&p.committed);
  _mm_sfence();
  return 0;
}
