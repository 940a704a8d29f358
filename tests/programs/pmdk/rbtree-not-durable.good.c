// As rbtree-not-durable.bad.c, with both nodes logged.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct node {
  uint64_t key;
  int color;
  PMEMoid parent;
  PMEMoid slots[2];
};

static void recolor(PMEMoid n) {
  PMEMoid parent = D(struct node, n)->parent;
  TX_ADD_FIELD(parent, struct node, color);
  D(struct node, parent)->color = 0;
  TX_ADD_FIELD(n, struct node, color);
  D(struct node, n)->color = 1;
}

void repair(PMEMobjpool *pop, PMEMoid n) {
  TX_BEGIN(pop) {
    recolor(n);
  } TX_END
}
