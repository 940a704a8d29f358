// What the C library writes to persistent memory is lost without a flush, whichever function it is.
//@ variant sprintf: -DSPRINTF
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: skip (formatting is not modelled)
//@ variant snprintf: -DSNPRINTF
//@ check: fails at SNPRINTF
//@ lint: unflushed-write at SNPRINTF
//@ prove: skip (formatting is not modelled)
//@ variant qsort: -DQSORT
//@ check: fails at QSORT
//@ lint: unflushed-write at QSORT
//@ prove: skip (sorting is not modelled)
//@ variant mempcpy: -DMEMPCPY
//@ check: fails at MEMPCPY
//@ lint: unflushed-write at MEMPCPY
//@ prove: skip (what lint and check agree on is enough here)
//@ variant memccpy: -DMEMCCPY
//@ check: fails at MEMCCPY
//@ lint: unflushed-write at MEMCCPY
//@ prove: skip (what lint and check agree on is enough here)
//@ variant stpncpy: -DSTPNCPY
//@ check: fails at STPNCPY
//@ lint: unflushed-write at STPNCPY
//@ prove: skip (what lint and check agree on is enough here)
//@ variant strncat: -DSTRNCAT
//@ check: fails at STRNCAT
//@ lint: unflushed-write at STRNCAT
//@ prove: skip (what lint and check agree on is enough here)
//@ variant flushed: -DSNPRINTF -DFLUSH
//@ check: clean
//@ lint: clean
//@ prove: skip (formatting is not modelled)
#define _GNU_SOURCE
#include <crashproof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PERSISTENT char text[64] __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));

#ifdef QSORT
static int by_value(const void *left, const void *right) {
  return *(const char *)left - *(const char *)right;
}
#endif

void recover(void) {
  crashproof_assert(!done || text[1] == 'b');
}

int main(void) {
  if (crashproof_crashes()) {
    recover();
    return 0;
  }
#if defined SPRINTF
  sprintf(text, "a%c%d", 'b', 1); // MARK: LOST
#elif defined SNPRINTF
  snprintf(text, sizeof text, "a%c%d", 'b', 1); // MARK: SNPRINTF
#elif defined QSORT
  memcpy(text, "ba", 2);
  text[1] = 'a';
  crashproof_persist(text, sizeof text);
  qsort(text, 2, 1, by_value); // MARK: QSORT
#elif defined MEMPCPY
  mempcpy(text, "abc", 3); // MARK: MEMPCPY
#elif defined MEMCCPY
  memccpy(text, "abc", 'c', 3); // MARK: MEMCCPY
#elif defined STPNCPY
  stpncpy(text, "abc", sizeof text); // MARK: STPNCPY
#elif defined STRNCAT
  strncat(text, "abc", 3); // MARK: STRNCAT
#endif
#ifdef FLUSH
  crashproof_persist(text, sizeof text);
#endif
  done = 1;
  crashproof_persist(&done, sizeof done);
  return 0;
}
