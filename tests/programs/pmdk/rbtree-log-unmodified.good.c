// As rbtree-log-unmodified.bad.c, logging what is modified.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct node {
  uint64_t key;
  PMEMoid value;
  int color;
  PMEMoid parent;
  PMEMoid slots[2];
  char payload[128];
};

void set_parent(PMEMobjpool *pop, PMEMoid node, PMEMoid parent) {
  TX_BEGIN(pop) {
    TX_ADD_FIELD(node, struct node, parent);
    D(struct node, node)->parent = parent;
  } TX_END
}

void touch(PMEMobjpool *pop, PMEMoid node, PMEMoid other) {
  TX_BEGIN(pop) {
    TX_ADD_FIELD(node, struct node, color);
    TX_ADD_FIELD(other, struct node, color);
    D(struct node, node)->color = 1;
    D(struct node, other)->color = 0;
  } TX_END
}
