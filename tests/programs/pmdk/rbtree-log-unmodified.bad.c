// Table 3, rbtree_map.c:197 and 231: a whole node is logged, but only one of its fields is modified.
//@ check: skip (a fragment: it has no main)
//@ lint: log-unmodified at log-unmodified
//@ lint: log-unmodified at log-unmodified-2
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
    TX_ADD(node, struct node); // MARK: log-unmodified
    D(struct node, node)->parent = parent;
  } TX_END
}

void touch(PMEMobjpool *pop, PMEMoid node, PMEMoid other) {
  TX_BEGIN(pop) {
    TX_ADD_FIELD(node, struct node, color);
    TX_ADD_FIELD(other, struct node, color); // MARK: log-unmodified-2
    D(struct node, node)->color = 1;
  } TX_END
}
