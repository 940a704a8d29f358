// Functions of the C library that write to persistent memory, never flushed.
//@ variant SPRINTF: -DSPRINTF
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant SNPRINTF: -DSNPRINTF
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant QSORT: -DQSORT
//@ check: fails
//@ lint: unflushed-write at lost
//@ lint: empty-fence at fence
//@ prove: skip (not the question here)
//@ variant MEMPCPY: -DMEMPCPY
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: refuted
//@ variant MEMCCPY: -DMEMCCPY
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant STPNCPY: -DSTPNCPY
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant STRNCAT: -DSTRNCAT
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant BCOPY: -DBCOPY
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant SSCANF: -DSSCANF
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant WMEMCPY: -DWMEMCPY
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)

#include <assert.h>
#include <crashproof.h>
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wchar.h>

PERSISTENT _Alignas(64) union {
  char text[16];
  int numbers[4];
} p;
PERSISTENT _Alignas(64) int committed;

#ifdef QSORT
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
#endif

#if defined SPRINTF
#define WRITE sprintf(p.text, "%d", 1)
#elif defined SNPRINTF
#define WRITE snprintf(p.text, sizeof p.text, "%d", 1)
#elif defined QSORT
#define WRITE qsort(p.numbers, 4, sizeof(int), compare)
#elif defined MEMPCPY
#define WRITE mempcpy(p.text, "1", 2)
#elif defined MEMCCPY
#define WRITE memccpy(p.text, "1", 0, 16)
#elif defined STPNCPY
#define WRITE stpncpy(p.text, "1", 16)
#elif defined STRNCAT
#define WRITE strncat(p.text, "1", 3)
#elif defined BCOPY
#define WRITE bcopy("1", p.text, 2)
#elif defined SSCANF
#define WRITE sscanf("49", "%d", &p.numbers[0])
#elif defined WMEMCPY
#define WRITE wmemcpy((wchar_t *)p.numbers, L"1", 1)
#endif

int main(void) {
  if (committed) {
    assert(p.text[0] != 0);
    return 0;
  }
#ifdef QSORT
  p.numbers[3] = -1;
  _mm_clwb(p.numbers);
  _mm_sfence();
#endif
  WRITE; /* MARK: lost */
  _mm_sfence(); /* MARK: fence */
  committed = 1;
  _mm_clwb(&committed);
  _mm_sfence();
  return 0;
}
