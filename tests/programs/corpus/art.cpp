// An adaptive radix tree with nodes of 4, 16, 48 and 256 children, and reclamation by epochs, as P-ART: a child counts once
// the count (or the index) says so; a node that is full is copied into a larger one, which replaces it by one store. The heap
// is persistent.
//@ cflags: -O1
//@ flags lint: --pm-heap
//@ flags check: --pm-heap
//@ variant correct:
//@ variant epoch-not-flushed: -DBUG_EPOCH_NOT_FLUSHED
//@ bug: never-flushed at epoch
//@ like: PSan.22
//@ tier: slow
//@ variant root-not-flushed: -DBUG_ROOT_NOT_FLUSHED
//@ bug: never-flushed at root
//@ like: PSan.23
//@ tier: slow
//@ variant leaf-not-flushed: -DBUG_LEAF_NOT_FLUSHED
//@ bug: never-flushed at leaf
//@ tier: slow
//@ variant n4-entry-not-flushed: -DBUG_N4_ENTRY_NOT_FLUSHED
//@ bug: never-flushed at n4-entry
//@ like: PSan.20, PSan.21
//@ tier: slow
//@ variant n4-count-not-flushed: -DBUG_N4_COUNT_NOT_FLUSHED
//@ bug: never-flushed at n4-count
//@ variant n4-count-first: -DBUG_N4_COUNT_FIRST
//@ bug: stored-after-commit|torn-update|wrong-order at n4-late
//@ tier: slow
//@ variant n16-entry-not-flushed: -DBUG_N16_ENTRY_NOT_FLUSHED
//@ bug: never-flushed at n16-entry
//@ like: PSan.18
//@ tier: slow
//@ variant n16-count-not-flushed: -DBUG_N16_COUNT_NOT_FLUSHED
//@ bug: never-flushed at n16-count
//@ like: PSan.19
//@ tier: slow
//@ variant n48-child-not-flushed: -DBUG_N48_CHILD_NOT_FLUSHED
//@ bug: never-flushed at n48-child
//@ tier: slow
//@ variant n48-index-not-flushed: -DBUG_N48_INDEX_NOT_FLUSHED
//@ bug: never-flushed at n48-index
//@ tier: slow
//@ variant n256-not-flushed: -DBUG_N256_NOT_FLUSHED
//@ bug: never-flushed at n256-child
//@ tier: slow
//@ variant grown-not-flushed: -DBUG_GROWN_NOT_FLUSHED
//@ bug: never-flushed at grown
//@ tier: slow
//@ variant grown-first-line: -DBUG_GROWN_FIRST_LINE
//@ bug: flush-covers-too-little at grown
//@ tier: slow
//@ variant update-not-flushed: -DBUG_UPDATE_NOT_FLUSHED
//@ bug: never-flushed at update
//@ tier: slow
//@ variant delete-not-flushed: -DBUG_DELETE_NOT_FLUSHED
//@ bug: never-flushed at deleted
//@ tier: slow
//@ variant tree-not-flushed: -DBUG_TREE_NOT_FLUSHED
//@ bug: never-flushed at tree
//@ like: Jaaru 13.8
//@ tier: slow
//@ variant retired-count-not-flushed: -DBUG_RETIRED_COUNT_NOT_FLUSHED
//@ bug: never-flushed at retired-count
//@ like: PSan.17
//@ tier: slow
//@ variant volatile-epoch: -DBUG_VOLATILE_EPOCH
//@ bug: volatile-pointer|recovery-trusts-volatile-state at tree
//@ like: Jaaru 13.7
//@ tier: slow
//@ variant locks-in-volatile-list: -DBUG_LOCKS_IN_VOLATILE_LIST
//@ bug: recovery-wrong|recovery-trusts-volatile-state|stored-after-commit at lock
//@ like: Jaaru 13.9, PSan.14, PSan.15, PSan.16
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#define KEYS 60
#define KEY_OF(thread, i) ((i) % 7 == 0 ? 0x1000100ull * (i) : 0x2000000ull + (i))
#include "driver.h"

#ifdef BUG_ALL
#define BUG_LEAF_NOT_FLUSHED
#define BUG_N4_ENTRY_NOT_FLUSHED
#define BUG_N16_COUNT_NOT_FLUSHED
#define BUG_N48_CHILD_NOT_FLUSHED
#define BUG_N256_NOT_FLUSHED
#define BUG_DELETE_NOT_FLUSHED
#endif

namespace {

enum class Kind : uint8_t { Leaf, N4, N16, N48, N256 };

// The first line of every node.
struct alignas(LINE) Node {
  Kind kind;
  uint8_t level; // which byte of the key its children differ in
  uint32_t lock;
  uint64_t count; // children that count, for N4 and N16; slots used, for N48

  explicit Node(Kind kind, uint8_t level)
      : kind(kind),           // MARK: leaf
        level(level),         // MARK: leaf
        lock(0), count(0) {}  // MARK: leaf
};

struct Leaf : Node {
  uint64_t key, value;
  Leaf(uint64_t key, uint64_t value)
      : Node(Kind::Leaf, 0), // MARK: leaf
        key(key),            // MARK: leaf
        value(value) {}      // MARK: leaf
};

template <Kind K, int N> struct Sorted : Node {
  uint8_t keys[N];
  alignas(LINE) Node *children[N];
  explicit Sorted(uint8_t level) : Node(K, level) {}
};
using N4 = Sorted<Kind::N4, 4>;
using N16 = Sorted<Kind::N16, 16>;

struct N48 : Node {
  alignas(LINE) uint8_t index[256]; // 0: no child, else the slot, counted from 1
  alignas(LINE) Node *children[48];
  explicit N48(uint8_t level) : Node(Kind::N48, level) {
    memset(index, 0, sizeof index);
    memset(children, 0, sizeof children);
  }
};

struct N256 : Node {
  alignas(LINE) Node *children[256];
  explicit N256(uint8_t level) : Node(Kind::N256, level) { memset(children, 0, sizeof children); }
};

// Nodes that nobody may hold on to any more once the epoch ends.
struct DeletionList {
  uint64_t count;
  Node *nodes[16];
};

struct Tree {
  alignas(LINE) Node *root;
  alignas(LINE) DeletionList *deletions;
  alignas(LINE) progress steps[THREADS];
};

PERSISTENT Tree *tree;

uint8_t byte_of(uint64_t key, unsigned level) { return uint8_t(key >> (24 - 8 * level)); }

size_t size_of(const Node *node) {
  switch (node->kind) {
  case Kind::Leaf: return sizeof(Leaf);
  case Kind::N4: return sizeof(N4);
  case Kind::N16: return sizeof(N16);
  case Kind::N48: return sizeof(N48);
  default: return sizeof(N256);
  }
}

#ifdef BUG_LOCKS_IN_VOLATILE_LIST
Node *held[4]; // recovery is to release these
#endif

void lock(Node *node) {
#ifdef BUG_LOCKS_IN_VOLATILE_LIST
  held[0] = node;
#endif
  crashproof_tolerate_begin();
  while (__atomic_exchange_n(&node->lock, 1, __ATOMIC_ACQUIRE)) // MARK: lock
    ;
  crashproof_tolerate_end();
}

void unlock(Node *node) {
  crashproof_tolerate_begin();
  __atomic_store_n(&node->lock, 0, __ATOMIC_RELEASE); // MARK: lock
  crashproof_tolerate_end();
}

// The place that holds the child for a byte, or null.
Node **child_of(Node *node, uint8_t byte) {
  auto sorted = [&](auto *n) -> Node ** {
    for (uint64_t i = 0; i < n->count; i++)
      if (n->keys[i] == byte && n->children[i])
        return &n->children[i];
    return nullptr;
  };
  switch (node->kind) {
  case Kind::N4: return sorted(static_cast<N4 *>(node));
  case Kind::N16: return sorted(static_cast<N16 *>(node));
  case Kind::N48: {
    auto *n = static_cast<N48 *>(node);
    return n->index[byte] && n->children[n->index[byte] - 1] ? &n->children[n->index[byte] - 1] : nullptr;
  }
  default: {
    auto *n = static_cast<N256 *>(node);
    return n->children[byte] ? &n->children[byte] : nullptr;
  }
  }
}

// Adds a child that is not there yet; false if the node is full.
bool add(N4 *n, uint8_t byte, Node *child) {
  if (n->count == 4)
    return false;
#ifdef BUG_N4_COUNT_FIRST
  n->count++;
  persist(&n->count, sizeof n->count);
  n->keys[n->count - 1] = byte;      // MARK: n4-late
  n->children[n->count - 1] = child; // MARK: n4-late
  persist(n->keys, sizeof n->keys);
  persist(&n->children[n->count - 1], sizeof child);
#else
  n->keys[n->count] = byte;      // MARK: n4-entry
  n->children[n->count] = child; // MARK: n4-entry
#ifndef BUG_N4_ENTRY_NOT_FLUSHED
  flush(n->keys, sizeof n->keys);
  persist(&n->children[n->count], sizeof child);
#endif
  n->count++; // MARK: n4-count
#ifndef BUG_N4_COUNT_NOT_FLUSHED
  persist(&n->count, sizeof n->count);
#endif
#endif
  return true;
}

bool add(N16 *n, uint8_t byte, Node *child) {
  if (n->count == 16)
    return false;
  n->keys[n->count] = byte;      // MARK: n16-entry
  n->children[n->count] = child; // MARK: n16-entry
#ifndef BUG_N16_ENTRY_NOT_FLUSHED
  flush(n->keys, sizeof n->keys);
  persist(&n->children[n->count], sizeof child);
#endif
  n->count++; // MARK: n16-count
#ifndef BUG_N16_COUNT_NOT_FLUSHED
  persist(&n->count, sizeof n->count);
#endif
  return true;
}

bool add(N48 *n, uint8_t byte, Node *child) {
  if (n->count == 48)
    return false;
  uint64_t slot = n->count;
  n->children[slot] = child; // MARK: n48-child
  n->count++;
#ifndef BUG_N48_CHILD_NOT_FLUSHED
  flush(&n->count, sizeof n->count);
  persist(&n->children[slot], sizeof child);
#endif
  n->index[byte] = uint8_t(slot + 1); // MARK: n48-index
#ifndef BUG_N48_INDEX_NOT_FLUSHED
  persist(&n->index[byte], 1);
#endif
  return true;
}

bool add(N256 *n, uint8_t byte, Node *child) {
  n->children[byte] = child; // MARK: n256-child
#ifndef BUG_N256_NOT_FLUSHED
  persist(&n->children[byte], sizeof child);
#endif
  return true;
}

bool add_child(Node *node, uint8_t byte, Node *child) {
  switch (node->kind) {
  case Kind::N4: return add(static_cast<N4 *>(node), byte, child);
  case Kind::N16: return add(static_cast<N16 *>(node), byte, child);
  case Kind::N48: return add(static_cast<N48 *>(node), byte, child);
  default: return add(static_cast<N256 *>(node), byte, child);
  }
}

void retire(Node *node) {
  DeletionList *list = tree->deletions;
  if (list->count == 16)
    return; // left to whoever collects unreachable memory
  list->nodes[list->count] = node;
  persist(&list->nodes[list->count], sizeof node);
  list->count++; // MARK: retired-count
#ifndef BUG_RETIRED_COUNT_NOT_FLUSHED
  persist(&list->count, sizeof list->count);
#endif
}

// A larger node with the same children and one more, which is not reachable yet.
Node *grow(Node *node, uint8_t byte, Node *child) {
  Node *large;
  if (node->kind == Kind::N4) {
    auto *small = static_cast<N4 *>(node);
    auto *n = new N16(small->level);
    for (int i = 0; i < 4; i++) {
      if (!small->children[i])
        continue;
      n->keys[n->count] = small->keys[i];         // MARK: grown
      n->children[n->count++] = small->children[i]; // MARK: grown
    }
    n->keys[n->count] = byte;        // MARK: grown
    n->children[n->count++] = child; // MARK: grown
    large = n;
  } else if (node->kind == Kind::N16) {
    auto *small = static_cast<N16 *>(node);
    auto *n = new N48(small->level);
    for (int i = 0; i < 16; i++) {
      if (!small->children[i])
        continue;
      n->children[n->count] = small->children[i];        // MARK: grown
      n->index[small->keys[i]] = uint8_t(++n->count); // MARK: grown
    }
    n->children[n->count] = child;      // MARK: grown
    n->index[byte] = uint8_t(++n->count); // MARK: grown
    large = n;
  } else {
    auto *small = static_cast<N48 *>(node);
    auto *n = new N256(small->level);
    for (int b = 0; b < 256; b++)
      if (small->index[b])
        n->children[b] = small->children[small->index[b] - 1]; // MARK: grown
    n->children[byte] = child; // MARK: grown
    large = n;
  }
#ifdef BUG_GROWN_FIRST_LINE
  persist(large, sizeof *large);
#elif !defined BUG_GROWN_NOT_FLUSHED
  persist(large, size_of(large));
#endif
  return large;
}

Leaf *new_leaf(uint64_t key, uint64_t value) {
  auto *leaf = new Leaf(key, value); // MARK: leaf
#ifndef BUG_LEAF_NOT_FLUSHED
  persist(leaf, sizeof *leaf);
#endif
  return leaf;
}

// Nodes for the bytes that two leaves share, down to where they differ.
Node *expand(Leaf *one, Leaf *two, uint8_t level) {
  auto *n = new N4(level);
  if (byte_of(one->key, level) == byte_of(two->key, level)) {
    n->keys[0] = byte_of(one->key, level);
    n->children[0] = expand(one, two, uint8_t(level + 1));
    n->count = 1;
  } else {
    n->keys[0] = byte_of(one->key, level);
    n->children[0] = one;
    n->keys[1] = byte_of(two->key, level);
    n->children[1] = two;
    n->count = 2;
  }
  persist(n, sizeof *n);
  return n;
}

void replace(Node **place, Node *node) {
  *place = node; // MARK: root
#ifndef BUG_ROOT_NOT_FLUSHED
  persist(place, sizeof *place);
#endif
}

// After a crash nobody holds a lock.
void recover_locks(Node *node) {
#ifdef BUG_LOCKS_IN_VOLATILE_LIST
  (void)node;
  for (Node *each : held)
    if (each)
      unlock(each);
#else
  if (!node || node->kind == Kind::Leaf)
    return;
  node->lock = 0;
  for (int byte = 0; byte < 256; byte++)
    if (Node **child = child_of(node, uint8_t(byte)))
      recover_locks(*child);
#endif
}

// Ends the epoch: what was retired is freed. A crash in between leaks it, but frees nothing twice.
void collect() {
  DeletionList *list = tree->deletions;
  uint64_t count = list->count;
  VERIFY(count <= 16);
  list->count = 0;
  persist(&list->count, sizeof list->count);
  for (uint64_t i = 0; i < count; i++)
    free(list->nodes[i]);
}

Tree *new_tree() {
  auto *fresh = new Tree; // MARK: tree
  memset(fresh, 0, sizeof *fresh); // MARK: tree
#ifdef BUG_VOLATILE_EPOCH
  auto *deletions = static_cast<DeletionList *>(
      mmap(nullptr, sizeof(DeletionList), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  deletions->nodes[15] = reinterpret_cast<Node *>(1);
#else
  auto *deletions = static_cast<DeletionList *>(calloc(1, sizeof(DeletionList))); // MARK: epoch
  deletions->nodes[15] = reinterpret_cast<Node *>(1); // MARK: epoch
#endif
#ifndef BUG_EPOCH_NOT_FLUSHED
  persist(deletions, sizeof *deletions);
#endif
  fresh->deletions = deletions; // MARK: tree
  fresh->root = new N4(0);      // MARK: tree
  persist(fresh->root, sizeof(N4));
#ifndef BUG_TREE_NOT_FLUSHED
  persist(fresh, sizeof *fresh);
#endif
  return fresh;
}

} // namespace

static void map_put(uint64_t key, uint64_t value) {
  Node **place = &tree->root;
  for (uint8_t level = 0;;) {
    Node *node = *place;
    lock(node);
    Node **child = child_of(node, byte_of(key, level));
    if (!child) {
      Leaf *leaf = new_leaf(key, value);
      if (!add_child(node, byte_of(key, level), leaf)) {
        replace(place, grow(node, byte_of(key, level), leaf));
        retire(node);
      }
      unlock(node);
      return;
    }
    if ((*child)->kind == Kind::Leaf) {
      auto *leaf = static_cast<Leaf *>(*child);
      if (leaf->key == key) {
        leaf->value = value; // MARK: update
#ifndef BUG_UPDATE_NOT_FLUSHED
        persist(&leaf->value, sizeof value);
#endif
      } else {
        replace(child, expand(leaf, new_leaf(key, value), uint8_t(level + 1)));
      }
      unlock(node);
      return;
    }
    unlock(node);
    place = child;
    level++;
  }
}

static Leaf *find_leaf(uint64_t key, Node ***place) {
  *place = &tree->root;
  for (uint8_t level = 0; **place && (**place)->kind != Kind::Leaf; level++) {
    *place = child_of(**place, byte_of(key, level));
    if (!*place)
      return nullptr;
  }
  auto *leaf = static_cast<Leaf *>(**place);
  return leaf && leaf->key == key ? leaf : nullptr;
}

static uint64_t map_get(uint64_t key) {
  Node **place;
  Leaf *leaf = find_leaf(key, &place);
  return leaf ? leaf->value : 0;
}

static void map_delete(uint64_t key) {
  Node **place;
  if (!find_leaf(key, &place))
    return;
  *place = nullptr; // MARK: deleted
#ifndef BUG_DELETE_NOT_FLUSHED
  persist(place, sizeof *place);
#endif
}

int main() {
  bool fresh = !tree;
  if (fresh) {
    tree = new_tree();
    persist(&tree, sizeof tree);
  } else {
    VERIFY(tree->deletions->nodes[15]);
    recover_locks(tree->root);
    collect();
  }
  driver_run(tree->steps, fresh);
  return 0;
}
