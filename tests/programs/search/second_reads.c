// The first recovery reads nothing of what the run did; the second one does. Two crashes of the run leave the same
// line open with the same contents, while what surely persisted of the other differs: both must be crashed again.
//@ flags check: --no-robust
//@ lint: clean, no warnings
//@ variant once:
//@ check: clean
//@ prove: vacuous
//@ variant twice:
//@ flags check: --crashes 2
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ prove: skip (prove looks at one crash)
#include <crashproof.h>
#include <stdlib.h>

static PERSISTENT struct {
  long x __attribute__((aligned(64)));
  long z __attribute__((aligned(64)));
  long y __attribute__((aligned(64)));
} all;

static void set(long *what, long value) {
  *what = value; // MARK: recovery-fails-nothing-lost
  crashproof_persist(what, sizeof *what);
}

int main(void) {
  switch (crashproof_crashes()) {
  case 0:
    set(&all.x, 1);
    set(&all.x, 0);
    set(&all.z, 1);
    set(&all.x, 1);
    set(&all.x, 0);
    return 0;
  case 1:
    set(&all.y, 1);
    return 0;
  default:
    if (all.x == 1 && all.z == 1)
      abort();
    return 0;
  }
}
