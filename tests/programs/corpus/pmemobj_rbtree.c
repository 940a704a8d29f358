// A red-black tree on libpmemobj: insertion, deletion and their rotations log every node before they change it, as PMDK's
// rbtree_map does it. A sentinel stands for all leaves and for what is above the root.
//@ args: {dir}/pool
//@ cflags: -O1 -lpmemobj
//@ flags check: --setup "{program} {dir}/pool create"
//@ robust: skip (a recovery through libpmemobj, which is not rebuilt, takes 30 ms: check judges each variant once)
//@ variant correct:
//@ variant rotated-child-unlogged: -DBUG_ROTATED_CHILD_UNLOGGED
//@ bug: unlogged|never-flushed at rotated-child
//@ like: Jaaru 12.7
//@ tier: slow
//@ variant rotated-unlogged: -DBUG_ROTATED_UNLOGGED
//@ bug: unlogged|never-flushed at rotated
//@ tier: slow
//@ variant parent-unlogged: -DBUG_PARENT_UNLOGGED
//@ bug: unlogged|never-flushed at parent
//@ tier: slow
//@ variant insert-unlogged: -DBUG_INSERT_UNLOGGED
//@ bug: unlogged|never-flushed at inserted
//@ tier: slow
//@ variant color-unlogged: -DBUG_COLOR_UNLOGGED
//@ bug: unlogged|never-flushed at recolored
//@ tier: slow
//@ variant transplant-unlogged: -DBUG_TRANSPLANT_UNLOGGED
//@ bug: unlogged|never-flushed at transplanted
//@ tier: slow
//@ variant update-unlogged: -DBUG_UPDATE_UNLOGGED
//@ bug: unlogged|never-flushed at update
//@ tier: slow
//@ variant sentinel-not-initialized: -DBUG_SENTINEL_NOT_INITIALIZED
//@ bug: never-flushed|unlogged at sentinel
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
#define BUG_ROTATED_CHILD_UNLOGGED
#define BUG_PARENT_UNLOGGED
#define BUG_INSERT_UNLOGGED
#define BUG_COLOR_UNLOGGED
#define BUG_TRANSPLANT_UNLOGGED
#define BUG_UPDATE_UNLOGGED
#endif

POBJ_LAYOUT_BEGIN(rbtree);
POBJ_LAYOUT_ROOT(rbtree, struct tree);
POBJ_LAYOUT_TOID(rbtree, struct node);
POBJ_LAYOUT_END(rbtree);

enum color { BLACK, RED };
enum side { LEFT, RIGHT };

struct node {
  uint64_t key, value;
  uint64_t color;
  TOID(struct node) parent;
  TOID(struct node) child[2];
};

struct tree {
  struct progress progress[THREADS];
  TOID(struct node) sentinel;
  TOID(struct node) root; /* a node whose left child is the topmost one */
};

static TOID(struct tree) tree;

#define NIL (D_RO(tree)->sentinel)
#define IS_NIL(n) TOID_EQUALS(n, NIL)
#define FIRST (D_RO(D_RO(tree)->root)->child[LEFT])

static void tree_create(void) {
  TX_BEGIN(pop) {
    TX_ADD_FIELD(tree, sentinel);
    TX_ADD_FIELD(tree, root);
    TOID(struct node) s = TX_ZNEW(struct node);
    D_RW(s)->color = BLACK;
    D_RW(s)->parent = s;
    D_RW(s)->child[LEFT] = s;
    D_RW(s)->child[RIGHT] = s;
    TOID(struct node) r = TX_ZNEW(struct node);
    D_RW(r)->color = BLACK;
#ifndef BUG_SENTINEL_NOT_INITIALIZED
    D_RW(r)->parent = s;
    D_RW(r)->child[LEFT] = s;
    D_RW(r)->child[RIGHT] = s;
#endif
    D_RW(tree)->sentinel = s;
    D_RW(tree)->root = r;
  }
  TX_END
#ifdef BUG_SENTINEL_NOT_INITIALIZED
  D_RW(D_RW(tree)->root)->parent = NIL;       // MARK: sentinel
  D_RW(D_RW(tree)->root)->child[LEFT] = NIL;  // MARK: sentinel
  D_RW(D_RW(tree)->root)->child[RIGHT] = NIL; // MARK: sentinel
#endif
}

static int side_of(TOID(struct node) n) { return TOID_EQUALS(D_RO(D_RO(n)->parent)->child[RIGHT], n); }

static void color_set(TOID(struct node) n, enum color color) {
#ifndef BUG_COLOR_UNLOGGED
  TX_ADD_FIELD(n, color);
#endif
  D_RW(n)->color = color; // MARK: recolored
}

/* The child on the other side takes a node's place; the node becomes its child. */
static void rotate(TOID(struct node) n, int side) {
  TOID(struct node) child = D_RO(n)->child[!side];
  TOID(struct node) inner = D_RO(child)->child[side];
  TOID(struct node) parent = D_RO(n)->parent;
  int at = side_of(n);
#ifndef BUG_ROTATED_UNLOGGED
  TX_ADD(n);
#endif
#ifndef BUG_ROTATED_CHILD_UNLOGGED
  TX_ADD(child);
#endif
#ifndef BUG_PARENT_UNLOGGED
  TX_ADD(parent);
#endif
#ifdef BUG_LOGGED_TWICE
  TX_ADD(parent); // MARK: twice
#endif
  D_RW(n)->child[!side] = inner; // MARK: rotated
  if (!IS_NIL(inner)) {
    TX_ADD_FIELD(inner, parent);
    D_RW(inner)->parent = n;
  }
  D_RW(child)->parent = parent;   // MARK: rotated-child
  D_RW(parent)->child[at] = child; // MARK: parent
  D_RW(child)->child[side] = n;   // MARK: rotated-child
  D_RW(n)->parent = child;        // MARK: rotated
}

static void insert_repair(TOID(struct node) n) {
  while (D_RO(D_RO(n)->parent)->color == RED) {
    TOID(struct node) parent = D_RO(n)->parent;
    TOID(struct node) above = D_RO(parent)->parent;
    int side = side_of(parent);
    TOID(struct node) uncle = D_RO(above)->child[!side];
    if (D_RO(uncle)->color == RED) {
      color_set(parent, BLACK);
      color_set(uncle, BLACK);
      color_set(above, RED);
      n = above;
      continue;
    }
    if (side_of(n) != side) {
      n = parent;
      rotate(n, side);
    }
    color_set(D_RO(n)->parent, BLACK);
    color_set(D_RO(D_RO(n)->parent)->parent, RED);
    rotate(D_RO(D_RO(n)->parent)->parent, !side);
  }
  if (D_RO(FIRST)->color != BLACK)
    color_set(FIRST, BLACK);
}

static TOID(struct node) find(uint64_t key) {
  TOID(struct node) n = FIRST;
  while (!IS_NIL(n) && D_RO(n)->key != key)
    n = D_RO(n)->child[D_RO(n)->key < key];
  return n;
}

static void node_insert(uint64_t key, uint64_t value) {
  TOID(struct node) parent = D_RO(tree)->root;
  int side = LEFT;
  for (TOID(struct node) at = FIRST; !IS_NIL(at); at = D_RO(at)->child[side]) {
    parent = at;
    side = D_RO(at)->key < key;
  }
  TOID(struct node) n = TX_NEW(struct node);
  struct node fresh = {key, value, RED, parent, {NIL, NIL}};
  *D_RW(n) = fresh;
#ifndef BUG_INSERT_UNLOGGED
  TX_ADD_FIELD(parent, child[side]);
#endif
  D_RW(parent)->child[side] = n; // MARK: inserted
  insert_repair(n);
}

static void map_put(uint64_t key, uint64_t value) {
  TX_BEGIN(pop) {
    TOID(struct node) n = find(key);
    if (IS_NIL(n)) {
      node_insert(key, value);
    } else {
#ifndef BUG_UPDATE_UNLOGGED
      TX_ADD_FIELD(n, value);
#endif
      D_RW(n)->value = value; // MARK: update
    }
  }
  TX_END
}

static uint64_t map_get(uint64_t key) {
  TOID(struct node) n = find(key);
  return IS_NIL(n) ? 0 : D_RO(n)->value;
}

/* A node takes another one's place below the parent of that. */
static void transplant(TOID(struct node) old, TOID(struct node) by) {
  TOID(struct node) parent = D_RO(old)->parent;
  int side = side_of(old);
#ifndef BUG_TRANSPLANT_UNLOGGED
  TX_ADD(parent);
#endif
  D_RW(parent)->child[side] = by; // MARK: transplanted
  TX_ADD_FIELD(by, parent);
  D_RW(by)->parent = parent;
}

static void delete_repair(TOID(struct node) n) {
  while (!TOID_EQUALS(n, FIRST) && D_RO(n)->color == BLACK) {
    TOID(struct node) parent = D_RO(n)->parent;
    int side = side_of(n);
    TOID(struct node) sibling = D_RO(parent)->child[!side];
    if (D_RO(sibling)->color == RED) {
      color_set(sibling, BLACK);
      color_set(parent, RED);
      rotate(parent, side);
      sibling = D_RO(parent)->child[!side];
    }
    TOID(struct node) near = D_RO(sibling)->child[side];
    TOID(struct node) far = D_RO(sibling)->child[!side];
    if (D_RO(near)->color == BLACK && D_RO(far)->color == BLACK) {
      color_set(sibling, RED);
      n = parent;
      continue;
    }
    if (D_RO(far)->color == BLACK) {
      color_set(near, BLACK);
      color_set(sibling, RED);
      rotate(sibling, !side);
      sibling = near;
      far = D_RO(sibling)->child[!side];
    }
    color_set(sibling, (enum color)D_RO(parent)->color);
    color_set(parent, BLACK);
    color_set(far, BLACK);
    rotate(parent, side);
    break;
  }
  color_set(n, BLACK);
}

static void map_delete(uint64_t key) {
  TX_BEGIN(pop) {
    TOID(struct node) n = find(key);
    if (!IS_NIL(n)) {
      TOID(struct node) child;
      uint64_t color = D_RO(n)->color;
      if (IS_NIL(D_RO(n)->child[LEFT]) || IS_NIL(D_RO(n)->child[RIGHT])) {
        child = D_RO(n)->child[IS_NIL(D_RO(n)->child[LEFT])];
        transplant(n, child);
      } else {
        TOID(struct node) next = D_RO(n)->child[RIGHT];
        while (!IS_NIL(D_RO(next)->child[LEFT]))
          next = D_RO(next)->child[LEFT];
        color = D_RO(next)->color;
        child = D_RO(next)->child[RIGHT];
        TX_ADD(next);
        if (TOID_EQUALS(D_RO(next)->parent, n)) {
          TX_ADD_FIELD(child, parent);
          D_RW(child)->parent = next;
        } else {
          transplant(next, child);
          D_RW(next)->child[RIGHT] = D_RO(n)->child[RIGHT];
          TX_ADD_FIELD(D_RO(next)->child[RIGHT], parent);
          D_RW(D_RW(next)->child[RIGHT])->parent = next;
        }
        transplant(n, next);
        D_RW(next)->child[LEFT] = D_RO(n)->child[LEFT];
        TX_ADD_FIELD(D_RO(next)->child[LEFT], parent);
        D_RW(D_RW(next)->child[LEFT])->parent = next;
        D_RW(next)->color = D_RO(n)->color;
      }
      if (color == BLACK)
        delete_repair(child);
      TX_FREE(n);
    }
  }
  TX_END
}

/* Black nodes on every way down. No red node has a red child, and children know their parents. */
static uint64_t verified(TOID(struct node) n, TOID(struct node) parent) {
  if (IS_NIL(n))
    return 1;
  VERIFY(TOID_EQUALS(D_RO(n)->parent, parent));
  VERIFY(D_RO(n)->color == BLACK || D_RO(parent)->color == BLACK);
  uint64_t left = verified(D_RO(n)->child[LEFT], n);
  uint64_t right = verified(D_RO(n)->child[RIGHT], n);
  VERIFY(left == right);
  return left + (D_RO(n)->color == BLACK);
}

int main(int argc, char **argv) {
  objects_open(argc, argv, POBJ_LAYOUT_NAME(rbtree));
  tree = POBJ_ROOT(pop, struct tree);
  if (TOID_IS_NULL(D_RO(tree)->sentinel))
    tree_create();
  verified(FIRST, D_RO(tree)->root);
  driver_run(D_RW(tree)->progress, 0);
  verified(FIRST, D_RO(tree)->root);
  pmemobj_close(pop);
  return 0;
}
