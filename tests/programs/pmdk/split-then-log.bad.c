// Table 3, btree_map.c:201: a full node is split before anything is logged. The node that is logged afterwards may be the same,
// but then it is too late. A helper clears entries; another caller of it logs first, which says nothing about this one. The
// function is also called in its own file.
//@ check: skip (a fragment: it has no main)
//@ lint: unlogged-write at cleared
//@ lint: unlogged-write at count
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct node {
  uint64_t count;
  uint64_t keys[4];
  PMEMoid next;
};

void clear(uint64_t *key) {
  *key = 0; // MARK: cleared
}

static PMEMoid split(PMEMoid full) {
  PMEMoid right = pmemobj_tx_zalloc(sizeof(struct node), 1);
  D(struct node, right)->keys[0] = D(struct node, full)->keys[3];
  clear(&D(struct node, full)->keys[3]);
  D(struct node, full)->count = 3; // MARK: count
  return right;
}

static PMEMoid find(PMEMoid node, uint64_t key) {
  if (D(struct node, node)->count == 4)
    node = split(node);
  else if (D(struct node, node)->next.off != 0)
    return find(D(struct node, node)->next, key);
  return node;
}

int insert(PMEMobjpool *pop, PMEMoid first, uint64_t key) {
  TX_BEGIN(pop) {
    PMEMoid node = find(first, key);
    TX_ADD(node, struct node);
    D(struct node, node)->keys[D(struct node, node)->count++] = key;
  } TX_END
  return 0;
}

int insert_made(PMEMobjpool *pop, PMEMoid first, void (*make)(uint64_t *key)) {
  int failed = 0;
  TX_BEGIN(pop) {
    uint64_t key = 0;
    make(&key);
    insert(pop, first, key);
  } TX_ONABORT {
    failed = 1;
  } TX_END
  return failed;
}

int remove_last(PMEMobjpool *pop, PMEMoid node) {
  TX_BEGIN(pop) {
    TX_ADD(node, struct node);
    D(struct node, node)->count--;
    clear(&D(struct node, node)->keys[D(struct node, node)->count]);
  } TX_END
  return 0;
}
