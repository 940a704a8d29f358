// A crit-bit tree on libpmemobj: inner nodes name the first bit in which their two subtrees differ, leaves hold items. Every
// change is a transaction that logs the one slot it replaces, as PMDK's ctree_map does it.
//@ args: {dir}/pool
//@ cflags: -O1 -lpmemobj
//@ flags check: --setup "{program} {dir}/pool create"
//@ robust: skip (a recovery through libpmemobj, which is not rebuilt, takes 30 ms: check judges each variant once)
//@ variant correct:
//@ variant slot-unlogged: -DBUG_SLOT_UNLOGGED
//@ bug: unlogged|never-flushed at slot
//@ tier: slow
//@ variant root-unlogged: -DBUG_ROOT_UNLOGGED
//@ bug: unlogged|never-flushed at root
//@ tier: slow
//@ variant update-unlogged: -DBUG_UPDATE_UNLOGGED
//@ bug: unlogged|never-flushed at update
//@ tier: slow
//@ variant update-outside: -DBUG_UPDATE_OUTSIDE
//@ bug: never-flushed at update-outside
//@ tier: slow
//@ variant removed-unlogged: -DBUG_REMOVED_UNLOGGED
//@ bug: unlogged|never-flushed at removed
//@ like: Jaaru 12.4
//@ tier: slow
//@ variant other-node-logged: -DBUG_OTHER_NODE_LOGGED
//@ bug: unlogged|never-flushed at slot
//@ tier: slow
//@ variant logged-partly: -DBUG_LOGGED_PARTLY
//@ bug: unlogged|never-flushed at grown
//@ tier: slow
//@ variant logged-late: -DBUG_LOGGED_LATE
//@ bug: unlogged|logged-late|torn-update at late
//@ tier: slow
//@ variant logged-twice: -DBUG_LOGGED_TWICE
//@ bug: redundant at twice
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#ifndef KEYS
#define KEYS 4
#endif
#include "objects.h"

#include "driver.h"

#ifdef BUG_ALL
#define BUG_SLOT_UNLOGGED
#define BUG_ROOT_UNLOGGED
#define BUG_UPDATE_UNLOGGED
#define BUG_REMOVED_UNLOGGED
#define BUG_LOGGED_PARTLY
#endif

POBJ_LAYOUT_BEGIN(ctree);
POBJ_LAYOUT_ROOT(ctree, struct tree);
POBJ_LAYOUT_TOID(ctree, struct node);
POBJ_LAYOUT_END(ctree);

/* A leaf if its node is null. */
struct slot {
  uint64_t key, value;
  TOID(struct node) node;
};

struct node {
  uint32_t bit; /* 0 is the lowest */
  struct slot slots[2];
};

struct tree {
  struct progress progress[THREADS];
  uint64_t count;
  uint64_t changes;
  struct slot root; /* a leaf with key 0 if the tree is empty */
};

static TOID(struct tree) tree;

static uint32_t first_difference(uint64_t a, uint64_t b) { return 63 - (uint32_t)__builtin_clzll(a ^ b); }

static int side(uint64_t key, uint32_t bit) { return (key >> bit) & 1; }

/* The leaf that a key leads to, and the node it is in. */
static struct slot *descend(uint64_t key, TOID(struct node) * parent) {
  struct slot *at = &D_RW(tree)->root;
  *parent = TOID_NULL(struct node);
  while (!TOID_IS_NULL(at->node)) {
    *parent = at->node;
    at = &D_RW(*parent)->slots[side(key, D_RO(*parent)->bit)];
  }
  return at;
}

/* Puts a new node, with the leaf on one side, in front of the first slot that a later bit decides. */
static void leaf_insert(uint64_t key, uint64_t value, uint32_t bit) {
  TOID(struct node) added = TX_NEW(struct node);
  D_RW(added)->bit = bit;
  struct slot *at = &D_RW(tree)->root;
  TOID(struct node) inside = TOID_NULL(struct node);
  while (!TOID_IS_NULL(at->node) && D_RO(at->node)->bit > bit) {
    inside = at->node;
    at = &D_RW(inside)->slots[side(key, D_RO(inside)->bit)];
  }
  struct slot leaf = {key, value, TOID_NULL(struct node)};
  D_RW(added)->slots[side(key, bit)] = leaf;
  D_RW(added)->slots[!side(key, bit)] = *at;
  if (TOID_IS_NULL(inside)) {
#ifndef BUG_ROOT_UNLOGGED
    TX_ADD_FIELD(tree, root);
#endif
    D_RW(tree)->root.key = 0;      // MARK: root
    D_RW(tree)->root.node = added; // MARK: root
    return;
  }
#ifdef BUG_OTHER_NODE_LOGGED
  TX_ADD(added);
#elif defined BUG_SLOT_UNLOGGED
#else
  TX_ADD(inside);
#endif
#ifdef BUG_LOGGED_TWICE
  TX_ADD(inside); // MARK: twice
#endif
  at->key = 0;      // MARK: slot
  at->node = added; // MARK: slot
}

static void map_put(uint64_t key, uint64_t value) {
  TX_BEGIN(pop) {
    TOID(struct node) parent;
    struct slot *at = descend(key, &parent);
    if (at->key == key) {
#ifdef BUG_LOGGED_LATE
      at->value = value; // MARK: late
      TX_ADD_DIRECT(&at->value);
#elif !defined BUG_UPDATE_OUTSIDE
#ifndef BUG_UPDATE_UNLOGGED
      TX_ADD_DIRECT(&at->value);
#endif
      at->value = value; // MARK: update
#endif
    } else {
#ifdef BUG_LOGGED_PARTLY
      TX_ADD_FIELD(tree, count);
#else
      pmemobj_tx_add_range(tree.oid, offsetof(struct tree, count), 2 * sizeof(uint64_t));
#endif
      D_RW(tree)->count++;
      D_RW(tree)->changes = key; // MARK: grown
      if (at->key == 0) {
        TX_ADD_FIELD(tree, root);
        D_RW(tree)->root.key = key;
        D_RW(tree)->root.value = value;
      } else {
        leaf_insert(key, value, first_difference(at->key, key));
      }
    }
  }
  TX_END
#ifdef BUG_UPDATE_OUTSIDE
  TOID(struct node) parent;
  descend(key, &parent)->value = value; // MARK: update-outside
#endif
}

static uint64_t map_get(uint64_t key) {
  TOID(struct node) parent;
  struct slot *at = descend(key, &parent);
  return at->key == key ? at->value : 0;
}

/* The other side of a leaf's node takes the node's place. */
static void map_delete(uint64_t key) {
  TX_BEGIN(pop) {
    TOID(struct node) parent = TOID_NULL(struct node);
    struct slot *above = NULL, *at = &D_RW(tree)->root;
    while (!TOID_IS_NULL(at->node)) {
      parent = at->node;
      above = at;
      at = &D_RW(parent)->slots[side(key, D_RO(parent)->bit)];
    }
    if (at->key == key) {
      pmemobj_tx_add_range(tree.oid, offsetof(struct tree, count), 2 * sizeof(uint64_t));
      D_RW(tree)->count--;
      D_RW(tree)->changes = key;
      if (TOID_IS_NULL(parent)) {
        TX_ADD_FIELD(tree, root);
        D_RW(tree)->root.key = 0;
        D_RW(tree)->root.value = 0;
      } else {
#ifndef BUG_REMOVED_UNLOGGED
        TX_ADD_DIRECT(above);
#endif
        *above = D_RO(parent)->slots[!side(key, D_RO(parent)->bit)]; // MARK: removed
        TX_FREE(parent);
      }
    }
  }
  TX_END
}

/* Keys of a subtree agree in all bits above its own. */
static uint64_t verified(const struct slot *at, uint32_t above) {
  if (TOID_IS_NULL(at->node))
    return at->key != 0;
  const struct node *n = D_RO(at->node);
  VERIFY(n->bit < above);
  return verified(&n->slots[0], n->bit) + verified(&n->slots[1], n->bit);
}

int main(int argc, char **argv) {
  objects_open(argc, argv, POBJ_LAYOUT_NAME(ctree));
  tree = POBJ_ROOT(pop, struct tree);
  VERIFY(verified(&D_RO(tree)->root, 64) == D_RO(tree)->count);
  VERIFY(D_RO(tree)->changes <= THREADS * KEYS);
  driver_run(D_RW(tree)->progress, 0);
  pmemobj_close(pop);
  return 0;
}
