// Table 3, rbtree_map.c:379: a node found by walking the tree is modified, but only its parent was logged.
//@ check: skip (a fragment: it has no main)
//@ lint: unlogged-write at unlogged-write
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
  D(struct node, n)->color = 1; // MARK: unlogged-write
}

void repair(PMEMobjpool *pop, PMEMoid n) {
  TX_BEGIN(pop) {
    recolor(n);
  } TX_END
}
