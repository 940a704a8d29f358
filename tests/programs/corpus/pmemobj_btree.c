// A B-tree on libpmemobj: every change is a transaction that logs what it stores to, as PMDK's btree_map does it.
//@ args: {dir}/pool
//@ cflags: -O1 -lpmemobj
//@ flags check: --setup "{program} {dir}/pool create"
//@ robust: skip (a recovery through libpmemobj, which is not rebuilt, takes 30 ms: check judges each variant once)
//@ variant correct:
//@ variant insert-unlogged: -DBUG_INSERT_UNLOGGED
//@ bug: unlogged|never-flushed at shift
//@ tier: slow
//@ variant split-unlogged: -DBUG_SPLIT_UNLOGGED
//@ bug: unlogged|never-flushed at cut
//@ like: Jaaru 12.1
//@ tier: slow
//@ variant parent-unlogged: -DBUG_PARENT_UNLOGGED
//@ bug: unlogged|never-flushed at parent
//@ tier: slow
//@ variant root-unlogged: -DBUG_ROOT_UNLOGGED
//@ bug: unlogged|never-flushed at root
//@ tier: slow
//@ variant update-unlogged: -DBUG_UPDATE_UNLOGGED
//@ bug: unlogged|never-flushed at update
//@ tier: slow
//@ variant delete-unlogged: -DBUG_DELETE_UNLOGGED
//@ bug: unlogged|never-flushed at close
//@ tier: slow
//@ variant count-outside: -DBUG_COUNT_OUTSIDE
//@ bug: never-flushed at count
//@ tier: slow
//@ variant empty-transaction: -DBUG_EMPTY_TRANSACTION
//@ bug: redundant at lookup
//@ like: DeepMC.9
//@ tier: slow
//@ variant logged-twice: -DBUG_LOGGED_TWICE
//@ bug: redundant at twice
//@ like: DeepMC.8
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#ifndef KEYS
#define KEYS 4
#endif
#include "objects.h"

#include "driver.h"

#ifdef BUG_ALL
#define BUG_INSERT_UNLOGGED
#define BUG_SPLIT_UNLOGGED
#define BUG_ROOT_UNLOGGED
#define BUG_DELETE_UNLOGGED
#define BUG_COUNT_OUTSIDE
#endif

#define ORDER 4 /* children of a node at most */

POBJ_LAYOUT_BEGIN(btree);
POBJ_LAYOUT_ROOT(btree, struct tree);
POBJ_LAYOUT_TOID(btree, struct node);
POBJ_LAYOUT_END(btree);

struct item {
  uint64_t key, value;
};

struct node {
  uint64_t count;
  struct item items[ORDER - 1];
  TOID(struct node) children[ORDER];
};

struct tree {
  struct progress progress[THREADS];
  TOID(struct node) root;
  uint64_t count;
};

static TOID(struct tree) tree;

static TOID(struct node) node_new(void) { return TX_ZNEW(struct node); }

static int is_leaf(TOID(struct node) n) { return TOID_IS_NULL(D_RO(n)->children[0]); }

/* Opens a gap for an item and the child behind it, and fills it. */
static void node_insert(TOID(struct node) n, uint64_t at, struct item item, TOID(struct node) child) {
#ifndef BUG_INSERT_UNLOGGED
  TX_ADD(n);
#endif
#ifdef BUG_LOGGED_TWICE
  TX_ADD(n); // MARK: twice
#endif
  for (uint64_t i = D_RO(n)->count; i > at; i--) {
    D_RW(n)->items[i] = D_RO(n)->items[i - 1];       // MARK: shift
    D_RW(n)->children[i + 1] = D_RO(n)->children[i]; // MARK: shift
  }
  D_RW(n)->items[at] = item;          // MARK: shift
  D_RW(n)->children[at + 1] = child;  // MARK: shift
  D_RW(n)->count++;                   // MARK: shift
}

/* Splits a full child; its middle item goes up. */
static void child_split(TOID(struct node) parent, uint64_t at) {
  TOID(struct node) left = D_RO(parent)->children[at];
  TOID(struct node) right = node_new();
  struct item middle = D_RO(left)->items[1];
  D_RW(right)->items[0] = D_RO(left)->items[2];
  D_RW(right)->children[0] = D_RO(left)->children[2];
  D_RW(right)->children[1] = D_RO(left)->children[3];
  D_RW(right)->count = 1;
#ifndef BUG_SPLIT_UNLOGGED
  TX_ADD(left);
#endif
  D_RW(left)->count = 1; // MARK: cut
#ifdef BUG_PARENT_UNLOGGED
  for (uint64_t i = D_RO(parent)->count; i > at; i--) {
    D_RW(parent)->items[i] = D_RO(parent)->items[i - 1];       // MARK: parent
    D_RW(parent)->children[i + 1] = D_RO(parent)->children[i]; // MARK: parent
  }
  D_RW(parent)->items[at] = middle;         // MARK: parent
  D_RW(parent)->children[at + 1] = right;   // MARK: parent
  D_RW(parent)->count++;                    // MARK: parent
#else
  node_insert(parent, at, middle, right);
#endif
}

static struct item *find(uint64_t key) {
  TOID(struct node) n = D_RO(tree)->root;
  while (!TOID_IS_NULL(n)) {
    uint64_t i = 0;
    while (i < D_RO(n)->count && D_RO(n)->items[i].key < key)
      i++;
    if (i < D_RO(n)->count && D_RO(n)->items[i].key == key)
      return &D_RW(n)->items[i];
    n = D_RO(n)->children[i];
  }
  return NULL;
}

static void map_put(uint64_t key, uint64_t value) {
  struct item item = {key, value};
  TX_BEGIN(pop) {
    struct item *old = find(key);
    if (old) {
#ifndef BUG_UPDATE_UNLOGGED
      TX_ADD_DIRECT(&old->value);
#endif
      old->value = value; // MARK: update
    } else {
      TOID(struct node) n = D_RO(tree)->root;
      if (D_RO(n)->count == ORDER - 1) {
        TOID(struct node) top = node_new();
        D_RW(top)->children[0] = n;
#ifndef BUG_ROOT_UNLOGGED
        TX_ADD_FIELD(tree, root);
#endif
        D_RW(tree)->root = top; // MARK: root
        child_split(top, 0);
        n = top;
      }
      for (;;) {
        uint64_t i = 0;
        while (i < D_RO(n)->count && D_RO(n)->items[i].key < key)
          i++;
        if (is_leaf(n)) {
          node_insert(n, i, item, TOID_NULL(struct node));
          break;
        }
        if (D_RO(D_RO(n)->children[i])->count == ORDER - 1) {
          child_split(n, i);
          if (D_RO(n)->items[i].key < key)
            i++;
        }
        n = D_RO(n)->children[i];
      }
#ifndef BUG_COUNT_OUTSIDE
      TX_ADD_FIELD(tree, count);
      D_RW(tree)->count++;
#endif
    }
  }
  TX_END
#ifdef BUG_COUNT_OUTSIDE
  D_RW(tree)->count++; // MARK: count
#endif
}

/* Deletes an item of a leaf; others are marked by a value of 0. */
static void map_delete(uint64_t key) {
  TX_BEGIN(pop) {
    struct item *item = find(key);
    if (item) {
#ifndef BUG_DELETE_UNLOGGED
      TX_ADD_DIRECT(&item->value);
#endif
      item->value = 0; // MARK: close
    }
  }
  TX_END
}

static uint64_t map_get(uint64_t key) {
  uint64_t value = 0;
#ifdef BUG_EMPTY_TRANSACTION
  TX_BEGIN(pop) { // MARK: lookup
    struct item *item = find(key);
    value = item ? item->value : 0;
  }
  TX_END // MARK: lookup
#else
  struct item *item = find(key);
  value = item ? item->value : 0;
#endif
  return value;
}

/* Keys grow from left to right, and the count is right. */
static uint64_t verified(TOID(struct node) n, uint64_t *last) {
  uint64_t items = 0;
  if (TOID_IS_NULL(n))
    return 0;
  VERIFY(D_RO(n)->count < ORDER);
  for (uint64_t i = 0; i <= D_RO(n)->count && i < ORDER; i++) {
    items += verified(D_RO(n)->children[i], last);
    if (i < D_RO(n)->count) {
      VERIFY(D_RO(n)->items[i].key > *last);
      *last = D_RO(n)->items[i].key;
      items++;
    }
  }
  return items;
}

int main(int argc, char **argv) {
  objects_open(argc, argv, POBJ_LAYOUT_NAME(btree));
  tree = POBJ_ROOT(pop, struct tree);
  if (TOID_IS_NULL(D_RO(tree)->root)) {
    TX_BEGIN(pop) {
      TX_ADD_FIELD(tree, root);
      D_RW(tree)->root = node_new();
    }
    TX_END
  }
  uint64_t last = 0;
  VERIFY(verified(D_RO(tree)->root, &last) == D_RO(tree)->count);
  driver_run(D_RW(tree)->progress, 0);
  pmemobj_close(pop);
  return 0;
}
