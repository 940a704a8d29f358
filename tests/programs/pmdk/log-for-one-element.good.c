// As log-for-one-element.bad.c: keys and children are modified, whichever they are.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct node {
  uint64_t count;
  uint64_t keys[7];
  PMEMoid children[8];
};

void remove_last(PMEMobjpool *pop, PMEMoid node, unsigned at, PMEMoid child) {
  TX_BEGIN(pop) {
    TX_ADD(node, struct node);
    D(struct node, node)->keys[at] = 0;
    D(struct node, node)->children[at] = child;
    D(struct node, node)->count -= 1;
  } TX_END
}
