// B+-tree nodes with in-place shifting and sibling pointers, as FAST and FAIR do it: an insertion shifts entries one by one, each
// step leaves a state that a reader tolerates (a duplicate pointer marks the slot being moved), and a split links the
// sibling before the parent knows it.
//@ args: {dir}/pool
//@ cflags: -O1
//@ variant correct:
//@ variant shift-not-flushed: -DBUG_SHIFT_NOT_FLUSHED
//@ bug: never-flushed at shift
//@ variant child-before-key: -DBUG_CHILD_BEFORE_KEY
//@ bug: torn-update|stored-after-commit at key-late
//@ variant entry-not-flushed: -DBUG_ENTRY_NOT_FLUSHED
//@ bug: never-flushed at child
//@ like: PSan.10
//@ tier: slow
//@ variant create-not-flushed: -DBUG_CREATE_NOT_FLUSHED
//@ bug: never-flushed at new
//@ like: Jaaru 13.4, Jaaru 13.5, PSan.11
//@ tier: slow
//@ variant sibling-partly-flushed: -DBUG_SIBLING_PARTLY_FLUSHED
//@ bug: flush-covers-too-little at moved
//@ tier: slow
//@ variant sibling-not-flushed: -DBUG_SIBLING_NOT_FLUSHED
//@ bug: never-flushed at moved
//@ tier: slow
//@ variant link-not-flushed: -DBUG_LINK_NOT_FLUSHED
//@ bug: never-flushed at sibling
//@ tier: slow
//@ variant cut-not-flushed: -DBUG_CUT_NOT_FLUSHED
//@ bug: never-flushed at cut
//@ tier: slow
//@ variant root-not-flushed: -DBUG_ROOT_NOT_FLUSHED
//@ bug: never-flushed at top
//@ like: PSan.12
//@ tier: slow
//@ variant root-pointer-not-flushed: -DBUG_ROOT_POINTER_NOT_FLUSHED
//@ bug: never-flushed at root
//@ like: Jaaru 13.6, PSan.13
//@ tier: slow
//@ variant hints-not-flushed: -DBUG_HINTS_NOT_FLUSHED
//@ bug: never-flushed at hints
//@ like: PSan.7, PSan.8
//@ tier: slow
//@ variant header-too-large: -DBUG_HEADER_TOO_LARGE
//@ bug: straddles-lines|torn-update|never-flushed|flushed-too-late|wrong-order|stored-after-commit at shift
//@ like: PSan.9
//@ tier: slow
//@ variant update-not-flushed: -DBUG_UPDATE_NOT_FLUSHED
//@ bug: never-flushed at update
//@ tier: slow
//@ variant delete-not-flushed: -DBUG_DELETE_NOT_FLUSHED
//@ bug: never-flushed at closed
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#define KEYS 12
#define KEY_OF(thread, i) ((uint64_t)(i) * 7 % 13 + 1)
#include "driver.h"

#ifdef BUG_ALL
#define BUG_SHIFT_NOT_FLUSHED
#define BUG_ENTRY_NOT_FLUSHED
#define BUG_CREATE_NOT_FLUSHED
#define BUG_SIBLING_NOT_FLUSHED
#define BUG_LINK_NOT_FLUSHED
#define BUG_CUT_NOT_FLUSHED
#define BUG_ROOT_NOT_FLUSHED
#define BUG_ROOT_POINTER_NOT_FLUSHED
#define BUG_UPDATE_NOT_FLUSHED
#endif

#define ENTRIES 8 /* in a node */
#define NODES 16

struct entry {
  uint64_t key;
  uint64_t child; /* node number for inner nodes, value for leaves; 0: end of the entries */
};

struct node {
  _Alignas(LINE) uint64_t leaf;
  uint64_t sibling; /* number, 0: none */
  uint64_t leftmost;
  uint64_t last;     /* how many entries there are: to begin a search in the middle */
  uint64_t switches; /* counts insertions, for readers that do not lock */
#ifdef BUG_HEADER_TOO_LARGE
  uint32_t level;
  uint32_t version;
  uint64_t pad[3]; /* the level was thought to fit in front of the version: entries begin 8 bytes too late */
#else
  uint64_t pad[3];
#endif
  struct entry entries[ENTRIES + 1];
};

struct tree {
  _Alignas(LINE) uint64_t magic;
  _Alignas(LINE) uint64_t root;
  _Alignas(LINE) uint64_t used;
  _Alignas(LINE) struct progress progress[THREADS];
  struct node nodes[NODES];
};

#define MAGIC 0xfa57fa1full

static struct tree *tree;

static struct node *node(uint64_t number) { return &tree->nodes[number]; }

static uint64_t node_new(uint64_t leaf) {
  uint64_t number = tree->used;
  VERIFY(number < NODES);
  tree->used = number + 1; // MARK: used
  persist(&tree->used, sizeof tree->used);
  memset(node(number), 0, sizeof *node(number)); // MARK: new
  node(number)->leaf = leaf; // MARK: new
  node(number)->leftmost = leaf; /* in a leaf no value: what marks its first slot as being moved */ // MARK: new
  return number;
}

static int count_of(struct node *n) {
  int count = 0;
  while (count < ENTRIES && n->entries[count].child)
    count++;
  return count;
}

/* Shifts to the right, one entry after the other; every cache line that is left behind is written back first. */
static void insert_into(struct node *n, uint64_t key, uint64_t child) {
  int i = count_of(n);
  n->entries[i + 1].child = 0;
  if (((uintptr_t)&n->entries[i + 1]) % LINE == 0) {
    persist(&n->entries[i + 1], sizeof n->entries[0]);
  }
  for (; i > 0 && n->entries[i - 1].key > key; i--) {
    n->entries[i].child = n->entries[i - 1].child; // MARK: shift
    n->entries[i].key = n->entries[i - 1].key;     // MARK: shift
    if (((uintptr_t)&n->entries[i]) % LINE == 0) {
#ifndef BUG_SHIFT_NOT_FLUSHED
      persist(&n->entries[i], sizeof n->entries[0]);
#endif
    }
  }
#ifdef BUG_CHILD_BEFORE_KEY
  n->entries[i].child = child;
  n->entries[i].key = key; // MARK: key-late
#else
  if (i < count_of(n))
    n->entries[i].child = i ? n->entries[i - 1].child : n->leftmost; /* a duplicate: readers skip it */
  n->entries[i].key = key; // MARK: child
  n->entries[i].child = child; // MARK: child
#endif
#ifndef BUG_ENTRY_NOT_FLUSHED
  persist(&n->entries[i], sizeof n->entries[0]);
#endif
  n->switches++;        // MARK: hints
  n->last = count_of(n); // MARK: hints
#ifndef BUG_HINTS_NOT_FLUSHED
  persist(&n->last, 2 * sizeof n->last);
#endif
}

/* Finds the value of a key in a leaf. An entry whose pointer is that of its left neighbor is being moved. */
static uint64_t find_in(struct node *n, uint64_t key) {
  for (;;) {
    uint64_t before = n->leftmost;
    for (int i = 0; i < ENTRIES && n->entries[i].child; i++) {
      if (n->entries[i].key == key && n->entries[i].child != before)
        return n->entries[i].child;
      before = n->entries[i].child;
    }
    if (!n->sibling || node(n->sibling)->entries[0].key > key)
      return 0;
    n = node(n->sibling);
  }
}

static struct node *leaf_for(uint64_t key) {
  struct node *n = node(tree->root);
  while (!n->leaf) {
    uint64_t next = n->leftmost;
    for (int i = 0; i < ENTRIES && n->entries[i].child && n->entries[i].key <= key; i++)
      next = n->entries[i].child;
    n = node(next);
  }
  return n;
}

static void tree_insert(uint64_t key, uint64_t value);

/* The right half moves to a new sibling, which is linked before the left half is cut off. */
static void split(struct node *n, uint64_t number) {
  uint64_t right = node_new(n->leaf);
  struct node *sibling = node(right);
  int half = ENTRIES / 2;
  for (int i = half; i < ENTRIES; i++)
    sibling->entries[i - half] = n->entries[i]; // MARK: moved
  sibling->sibling = n->sibling;
#ifdef BUG_SIBLING_PARTLY_FLUSHED
  persist(sibling, sizeof *sibling / 4);
#elif !defined BUG_SIBLING_NOT_FLUSHED
  persist(sibling, sizeof *sibling);
#endif
  n->sibling = right; // MARK: sibling
#ifndef BUG_LINK_NOT_FLUSHED
  persist(&n->sibling, sizeof n->sibling);
#endif
  n->entries[half].child = 0; // MARK: cut
#ifndef BUG_CUT_NOT_FLUSHED
  persist(&n->entries[half], sizeof n->entries[half]);
#endif
  uint64_t middle = sibling->entries[0].key;
  if (number == tree->root) {
    uint64_t top = node_new(0);
    node(top)->leftmost = number; // MARK: top
    node(top)->entries[0].key = middle; // MARK: top
    node(top)->entries[0].child = right; // MARK: top
#ifndef BUG_ROOT_NOT_FLUSHED
    persist(node(top), sizeof *node(top));
#endif
    tree->root = top; // MARK: root
#ifndef BUG_ROOT_POINTER_NOT_FLUSHED
    persist(&tree->root, sizeof tree->root);
#endif
  } else {
    insert_into(node(tree->root), middle, right);
  }
}

static void tree_insert(uint64_t key, uint64_t value) {
  for (;;) {
    struct node *n = leaf_for(key);
    while (n->sibling && node(n->sibling)->entries[0].child && node(n->sibling)->entries[0].key <= key)
      n = node(n->sibling);
    if (count_of(n) < ENTRIES) {
      insert_into(n, key, value);
      return;
    }
    split(n, (uint64_t)(n - tree->nodes));
  }
}

static void tree_create(void) {
  tree->used = 1; /* number 0 is none */
  tree->root = node_new(1);
#ifndef BUG_CREATE_NOT_FLUSHED
  persist(node(tree->root), sizeof(struct node));
#endif
  persist(tree, offsetof(struct tree, nodes));
  tree->magic = MAGIC;
  persist(&tree->magic, sizeof tree->magic);
}

/* Shifts to the left over an entry that was being moved. */
static void remove_at(struct node *n, int i) {
  for (; i < ENTRIES && n->entries[i].child; i++) {
    n->entries[i].key = n->entries[i + 1].key;     // MARK: closed
    n->entries[i].child = n->entries[i + 1].child; // MARK: closed
#ifndef BUG_DELETE_NOT_FLUSHED
    if ((uintptr_t)&n->entries[i + 1] % LINE == 0)
      persist(&n->entries[i], sizeof n->entries[i]);
#endif
  }
#ifndef BUG_DELETE_NOT_FLUSHED
  persist(&n->entries[i], sizeof n->entries[i]);
#endif
}

/* What a crash in a split or a shift left: entries that the sibling has, too, and duplicates. */
static void node_recover(struct node *n) {
  uint64_t before = n->leftmost;
  for (int i = 0; i < ENTRIES && n->entries[i].child; i++) {
    if (n->entries[i].child == before)
      remove_at(n, i--);
    else
      before = n->entries[i].child;
  }
  /* The hints are a step behind at most. */
  uint64_t count = (uint64_t)count_of(n);
  if (n->last != count) {
    n->last = count;
    n->switches++;
    persist(&n->last, 2 * sizeof n->last);
  }
  if (!n->leaf || !n->sibling)
    return;
  uint64_t first = node(n->sibling)->entries[0].key;
  for (int i = 0; i < ENTRIES && n->entries[i].child; i++) {
    if (n->entries[i].key >= first) {
      n->entries[i].child = 0;
      persist(&n->entries[i], sizeof n->entries[i]);
      break;
    }
  }
}

static void tree_recover(void) {
  struct node *n = node(tree->root);
  if (!n->leaf) {
    node_recover(n);
    n = node(n->leftmost);
  }
  for (;; n = node(n->sibling)) {
    node_recover(n);
    if (!n->sibling)
      break;
  }
}

/* The entry of a key and its node; -1 if it is not there. */
static int entry_of(uint64_t key, struct node **in) {
  for (struct node *n = leaf_for(key);; n = node(n->sibling)) {
    uint64_t before = n->leftmost;
    for (int i = 0; i < ENTRIES && n->entries[i].child; i++) {
      *in = n;
      if (n->entries[i].key == key && n->entries[i].child != before)
        return i;
      before = n->entries[i].child;
    }
    if (!n->sibling || node(n->sibling)->entries[0].key > key)
      return -1;
  }
}

static void map_put(uint64_t key, uint64_t value) {
  struct node *n;
  int i = entry_of(key, &n);
  if (i < 0) {
    tree_insert(key, value);
    return;
  }
  n->entries[i].child = value; // MARK: update
#ifndef BUG_UPDATE_NOT_FLUSHED
  persist(&n->entries[i], sizeof n->entries[i]);
#endif
}

static uint64_t map_get(uint64_t key) { return find_in(leaf_for(key), key); }

/* An entry with the pointer of its left neighbor does not count; then the others move up. */
static void map_delete(uint64_t key) {
  struct node *n;
  int i = entry_of(key, &n);
  if (i < 0)
    return;
  n->entries[i].child = i ? n->entries[i - 1].child : n->leftmost;
  persist(&n->entries[i], sizeof n->entries[i]);
  remove_at(n, i);
  n->last = count_of(n);
  persist(&n->last, sizeof n->last);
}

int main(int argc, char **argv) {
  tree = pool_map(argc > 1 ? argv[1] : "/mnt/pmem/tree", sizeof *tree);
  int fresh = tree->magic != MAGIC;
  if (fresh)
    tree_create();
  else
    tree_recover();
  driver_run(tree->progress, fresh);
  return 0;
}
