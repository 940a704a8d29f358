// A pointer to volatile memory or code that is kept in persistent memory leads nowhere in the next run.
//@ lint: skip (where pointers point to is not among its rules)
//@ prove: skip (prove has one address space for all runs)
//@ variant heap: -DHEAP
//@ check: volatile-pointer at heap
//@ variant code: -DCODE
//@ check: volatile-pointer at code
//@ variant stack: -DSTACK
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ variant library: -DLIBRARY
//@ check: volatile-pointer at library
//@ variant again: -DHEAP -DAGAIN
//@ check: clean
//@ variant persistent: -DOWN
//@ check: clean
//@ variant checksum: -DHEAP -DCHECKSUM
//@ check: clean
#include <crashproof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct root {
  char *name;
  int (*compare)(const char *, const char *);
  char own[16];
  unsigned long sum;
  long ready;
};

static int differ(const char *one, const char *other) { return one[0] - other[0]; }

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  char local[16];
  strcpy(local, "local");
#ifdef AGAIN
  // Every run sets it before it looks.
  r->name = strdup("name");
#endif
  if (crashproof_crashes()) {
    if (!r->ready)
      return 0;
#ifdef CHECKSUM
    // It only looks at what it kept.
    crashproof_assert(r->sum == (unsigned long)r->name * 31);
#else
    if (r->name && r->name[0] != 'n' && r->name[0] != 'l' && r->name[0] != 'o')
      abort();
    if (r->compare && r->compare("a", "a") != 0)
      abort();
#endif
    return 0;
  }
#ifdef HEAP
  r->name = strdup("name"); // MARK: heap
  r->sum = (unsigned long)r->name * 31;
#endif
#ifdef CODE
  r->compare = differ; // MARK: code
#endif
#ifdef STACK
  r->name = local; // MARK: stack
#endif
#ifdef LIBRARY
  r->compare = strcmp; // MARK: library
#endif
#ifdef OWN
  strcpy(r->own, "own");
  r->name = r->own;
#endif
  crashproof_persist(r, sizeof *r);
  r->ready = 1; // MARK: recovery-fails-nothing-lost
  crashproof_persist(&r->ready, sizeof r->ready);
  return local[0] == 'x' || differ("a", "a");
}
