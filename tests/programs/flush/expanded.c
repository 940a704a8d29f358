// The code generator turns a comparison of a few bytes into loads, after everything was instrumented. They must be
// seen all the same.
//@ variant o2: -O2
//@ check: fails at LOST
//@ figures: 1 crash points, 4 recoveries
//@ lint: unflushed-write at LOST
//@ prove: refuted at claim-violated
//@ variant o2-strict: -O2 -DSTRICT
//@ flags check: --strict
//@ check: fails at LOST
//@ figures: 1 crash points, 4 recoveries
//@ lint: unflushed-write at LOST
//@ prove: refuted at claim-violated
//@ variant o2-good: -O2 -DGOOD
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ prove: proved
//@ variant o2-good-strict: -O2 -DGOOD -DSTRICT
//@ flags check: --strict
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <string.h>

struct root {
  char name[16];
  long pad[8];
  long done;
};

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (crashproof_crashes()) {
    if (r->done)
      crashproof_assert(memcmp(r->name, "persistentmemory", 16) == 0); // MARK: claim-violated
    return 0;
  }
  memcpy(r->name, "persistentmemory", 16); // MARK: LOST
#ifdef GOOD
  crashproof_persist(r->name, sizeof r->name);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
