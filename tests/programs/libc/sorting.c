// qsort moves elements in PM; bsearch reads them through the comparison.
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ prove: proved
//@ variant plain:
//@ check: fails at LOST
//@ figures: 2 crash points, 6 recoveries
//@ lint: unflushed-write at LOST
//@ prove: refuted at claim-violated
#include <crashproof.h>
#include <stdlib.h>

struct root {
  long keys[8];
  long done;
};

static int order(const void *a, const void *b) {
  long x = *(const long *)a, y = *(const long *)b;
  return (x > y) - (x < y);
}

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (r->done) {
    long wanted = 5;
    long *found = bsearch(&wanted, r->keys, 8, sizeof *r->keys, order);
    crashproof_assert(found == &r->keys[5]); // MARK: claim-violated
    return 0;
  }
  if (crashproof_crashes())
    return 0;
  for (int i = 0; i < 8; i++)
    r->keys[i] = (i * 5 + 3) % 8;
  crashproof_persist(r->keys, sizeof r->keys);
  qsort(r->keys, 8, sizeof *r->keys, order); // MARK: LOST
#ifdef GOOD
  crashproof_persist(r->keys, sizeof r->keys); // MARK: redundant-flush
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
