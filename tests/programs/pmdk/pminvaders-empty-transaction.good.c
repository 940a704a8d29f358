// As pminvaders-empty-transaction.bad.c: one transaction that writes, and reading without one.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct state {
  uint64_t score;
};

static int redrawn;

void redraw(PMEMobjpool *pop, PMEMoid state) {
  (void)pop;
  redrawn = (int)D(struct state, state)->score;
}

void score(PMEMobjpool *pop, PMEMoid state) {
  TX_BEGIN(pop) {
    TX_ADD_FIELD(state, struct state, score);
    D(struct state, state)->score++;
  } TX_END
}
