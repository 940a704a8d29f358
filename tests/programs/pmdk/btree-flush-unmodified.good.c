// As btree-flush-unmodified.bad.c, with the field alone.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
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
    TX_ADD_FIELD(node, struct node, n);
    D(struct node, node)->n -= 1;
  } TX_END
}
