// PMDK: one of two fields is logged; a helper stores to both.
//@ check: skip (a fragment: it has no main)
//@ lint: unlogged-write at unlogged-write
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"
struct node { uint64_t n; PMEMoid child[4]; uint64_t items[4]; };
static void clear(struct node *node, int at) {
  node->n -= 1;
  node->items[at] = 0; // MARK: unlogged-write
}
void take(PMEMobjpool *pop, PMEMoid root, int at) {
  TX_BEGIN(pop) {
    TX_ADD_FIELD(root, struct node, n);
    clear(D(struct node, root), at);
  } TX_END
}
