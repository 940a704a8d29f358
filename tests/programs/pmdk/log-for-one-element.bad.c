// Table 8, btree_map.c:465: a leaf is logged with all its children, of which it has none. Which entry is removed is not known,
// but it is one of the array.
//@ check: skip (a fragment: it has no main)
//@ lint: log-unmodified at leaf
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct node {
  uint64_t count;
  uint64_t keys[7];
  PMEMoid children[8];
};

void remove_last(PMEMobjpool *pop, PMEMoid leaf, unsigned at) {
  TX_BEGIN(pop) {
    TX_ADD(leaf, struct node); // MARK: leaf
    D(struct node, leaf)->keys[at] = 0;
    D(struct node, leaf)->count -= 1;
  } TX_END
}
