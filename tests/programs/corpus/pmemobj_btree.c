// A B-tree on libpmemobj: every change is a transaction that logs what it stores to, as PMDK's btree_map does it.
//@ args: {dir}/pool
//@ cflags: -O1
//@ check: skip (libpmemobj itself is not built with crashproof here)
//@ variant correct:
//@ variant insert-unlogged: -DBUG_INSERT_UNLOGGED
//@ bug: unlogged at shift
//@ variant split-unlogged: -DBUG_SPLIT_UNLOGGED
//@ bug: unlogged at cut
//@ wrong lint: the store goes to a child whose address is not known at compile time; nothing else judges libpmemobj
//@ variant parent-unlogged: -DBUG_PARENT_UNLOGGED
//@ bug: unlogged at parent
//@ tier: slow
//@ variant root-unlogged: -DBUG_ROOT_UNLOGGED
//@ bug: unlogged at root
//@ tier: slow
//@ variant update-unlogged: -DBUG_UPDATE_UNLOGGED
//@ bug: unlogged at update
//@ tier: slow
//@ variant delete-unlogged: -DBUG_DELETE_UNLOGGED
//@ bug: unlogged at close
//@ tier: slow
//@ variant count-outside: -DBUG_COUNT_OUTSIDE
//@ bug: never-flushed at count
//@ tier: slow
//@ variant empty-transaction: -DBUG_EMPTY_TRANSACTION
//@ bug: redundant at lookup
//@ tier: slow
//@ variant logged-twice: -DBUG_LOGGED_TWICE
//@ bug: redundant at twice
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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
  TOID(struct node) root;
  uint64_t count;
};

static PMEMobjpool *pop;
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

static void tree_put(uint64_t key, uint64_t value) {
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
static void tree_delete(uint64_t key) {
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

static uint64_t tree_get(uint64_t key) {
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

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "/mnt/pmem/btree";
  pop = pmemobj_open(path, POBJ_LAYOUT_NAME(btree));
  if (!pop)
    pop = pmemobj_create(path, POBJ_LAYOUT_NAME(btree), PMEMOBJ_MIN_POOL, 0666);
  if (!pop) {
    perror(path);
    return 2;
  }
  tree = POBJ_ROOT(pop, struct tree);
  if (TOID_IS_NULL(D_RO(tree)->root)) {
    TX_BEGIN(pop) {
      TX_ADD(tree);
      D_RW(tree)->root = node_new();
      D_RW(tree)->count = 0;
    }
    TX_END
  }
  for (uint64_t i = D_RO(tree)->count; i < 12; i++)
    tree_put(i * 7 % 13, i + 1);
  tree_put(7, 100);
  tree_delete(3);
  if (tree_get(7) != 100 || tree_get(3) != 0 || tree_get(1) == 0)
    return 1;
  pmemobj_close(pop);
  return 0;
}
