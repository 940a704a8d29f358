// The whole node is logged before a helper stores to some element of it.
//@ check: skip (a fragment: it has no main)
// The children, a line of them, are logged in vain.
//@ lint: log-unmodified at whole
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"
struct node { uint64_t n; PMEMoid child[4]; uint64_t items[4]; };
static void clear(struct node *node, int at) {
  node->n -= 1;
  node->items[at] = 0;
}
void take(PMEMobjpool *pop, PMEMoid root, int at) {
  TX_BEGIN(pop) {
    TX_ADD(root, struct node); // MARK: whole
    clear(D(struct node, root), at);
  } TX_END
}
