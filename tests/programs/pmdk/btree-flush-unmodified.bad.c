// Table 8, btree_map.c:365 and 465, rbtree_map.c:259: a large node is added to the transaction for one field.
//@ check: skip (a fragment: it has no main)
//@ lint: log-unmodified at log-unmodified
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct node {
  uint64_t n;
  struct {
    uint64_t key;
    PMEMoid value;
  } items[7];
  PMEMoid slots[8];
};

void rotate(PMEMobjpool *pop, PMEMoid node) {
  TX_BEGIN(pop) {
    TX_ADD(node, struct node); // MARK: log-unmodified
    D(struct node, node)->n -= 1;
  } TX_END
}
