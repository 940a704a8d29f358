// A rotation logs the child of a parent that the rotation itself has just changed, and then stores to it. Where that is cannot be
// said by callers, neither of the log nor of the store: it is the same place.
//@ check: skip (a fragment: it has no main)
//@ lint: unknown (the address of a store or flush is not known)
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct node {
  uint64_t key;
  uint64_t color;
  PMEMoid parent;
  PMEMoid children[2];
};
#define N(oid) D(struct node, oid)
#define SET(oid, field, value)                                                                                    \
  do {                                                                                                            \
    TX_ADD_FIELD(oid, struct node, field);                                                                        \
    N(oid)->field = (value);                                                                                      \
  } while (0)

static int is_right(PMEMoid node) {
  return N(N(node)->parent)->children[1].off == node.off;
}

static void rotate(PMEMoid node, int side) {
  PMEMoid child = N(node)->children[!side];
  TX_ADD(node, struct node);
  TX_ADD(child, struct node);
  N(node)->children[!side] = N(child)->children[side];
  N(child)->parent = N(node)->parent;
  PMEMoid parent = N(node)->parent;
  int at = is_right(node);
  pmemobj_tx_add_range(parent, offsetof(struct node, children) + at * sizeof(PMEMoid), sizeof(PMEMoid));
  N(N(node)->parent)->children[is_right(node)] = child;
  N(child)->children[side] = node;
  N(node)->parent = child;
}

static PMEMoid recolor(PMEMoid node, int side) {
  PMEMoid uncle = N(N(N(node)->parent)->parent)->children[!side];
  if (N(uncle)->color == 1) {
    SET(uncle, color, 0);
    SET(N(node)->parent, color, 0);
    return N(N(node)->parent)->parent;
  }
  if (is_right(node) == !side) {
    node = N(node)->parent;
    rotate(node, side);
  }
  SET(N(node)->parent, color, 0);
  rotate(N(N(node)->parent)->parent, !side);
  return node;
}

int insert(PMEMobjpool *pop, PMEMoid node) {
  TX_BEGIN(pop) {
    while (N(N(node)->parent)->color == 1)
      node = recolor(node, is_right(N(node)->parent));
  } TX_END
  return 0;
}

int insert_made(PMEMobjpool *pop, PMEMoid node, void (*make)(PMEMoid node)) {
  TX_BEGIN(pop) {
    make(node);
    insert(pop, node);
  } TX_END
  return 0;
}
