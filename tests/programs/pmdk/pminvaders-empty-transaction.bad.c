// Table 1, "durable transaction without persistent writes": a transaction around volatile work.
//@ check: skip (a fragment: it has no main)
//@ lint: empty-transaction at empty-transaction
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct state {
  uint64_t score;
};

static int redrawn;

void redraw(PMEMobjpool *pop, PMEMoid state) {
  TX_BEGIN(pop) { // MARK: empty-transaction
    redrawn = (int)D(struct state, state)->score;
  } TX_END
}
