// Table 1, "durable transaction without persistent writes": a transaction around volatile work.
#include "pmdk.h"

struct state {
  uint64_t score;
};

static int redrawn;

void redraw(PMEMobjpool *pop, PMEMoid state) {
  TX_BEGIN(pop) { //~ empty-transaction
    redrawn = (int)D(struct state, state)->score;
  } TX_END
}
