// What was stored before an early return counts, whether or not null means failure.
//@ variant always: -DALWAYS
//@ check: skip (recovery does not look at the value)
//@ lint: unflushed-write at LOST
//@ prove: skip (it claims nothing)
//@ variant sometimes: -DSOMETIMES
//@ check: skip (recovery does not look at the value)
//@ lint: unflushed-write at LOST
//@ prove: skip (it claims nothing)
#include <crashproof.h>

PERSISTENT long complete;

void *work(int fails) {
  complete = 1; // MARK: LOST
#ifdef SOMETIMES
  if (fails)
    return 0;
  crashproof_persist(&complete, sizeof complete);
  return &complete;
#else
  (void)fails;
  return 0;
#endif
}
