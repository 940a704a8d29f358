// As btree-split-unlogged.bad.c, with the node added first.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct item {
  uint64_t key;
  PMEMoid value;
};
struct node {
  int n;
  struct item items[8];
  PMEMoid slots[9];
};

static PMEMoid split(PMEMoid node, struct item *median) {
  PMEMoid right = pmemobj_tx_zalloc(sizeof(struct node), 0);
  *median = D(struct node, node)->items[3];
  TX_ADD_FIELD(node, struct node, items[3]);
  D(struct node, node)->items[3] = (struct item){0};
  D(struct node, right)->n = 4;
  return right;
}

PMEMoid insert(PMEMobjpool *pop, PMEMoid node, struct item *median) {
  PMEMoid result = {0};
  TX_BEGIN(pop) {
    result = split(node, median);
    TX_ADD_FIELD(node, struct node, n);
    D(struct node, node)->n = 3;
  } TX_END
  return result;
}
