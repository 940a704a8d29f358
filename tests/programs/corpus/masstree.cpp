// A trie of B+-trees, as P-Masstree: each layer is a tree over four bytes of the key, whose values are values or the next layer.
// A leaf's entries are found through a permutation, one word that a single store replaces; leaves split to the right,
// and a border key keeps readers right in between. A pool in a mapped file; one writer.
//@ args: {dir}/pool
//@ cflags: -O1
//@ variant correct:
//@ variant root-object-flushed: -DBUG_ROOT_OBJECT_FLUSHED
//@ bug: wrong-address-flushed|never-flushed at root
//@ like: Jaaru 13.18
//@ variant entry-not-flushed: -DBUG_ENTRY_NOT_FLUSHED
//@ bug: never-flushed at entry
//@ variant entry-not-fenced: -DBUG_ENTRY_NOT_FENCED
//@ bug: flushed-not-fenced at entry
//@ like: DeepMC.3
//@ tier: slow
//@ variant entry-flushed-early: -DBUG_ENTRY_FLUSHED_EARLY
//@ bug: never-flushed at late
//@ tier: slow
//@ variant permutation-not-flushed: -DBUG_PERMUTATION_NOT_FLUSHED
//@ bug: never-flushed at permutation
//@ tier: slow
//@ variant permutation-first: -DBUG_PERMUTATION_FIRST
//@ bug: stored-after-commit|torn-update at after
//@ tier: slow
//@ variant right-not-flushed: -DBUG_RIGHT_NOT_FLUSHED
//@ bug: never-flushed at right
//@ tier: slow
//@ variant right-first-line: -DBUG_RIGHT_FIRST_LINE
//@ bug: flush-covers-too-little at right
//@ tier: slow
//@ variant cut-before-link: -DBUG_CUT_BEFORE_LINK
//@ bug: stored-after-commit|torn-update at cut
//@ tier: slow
//@ variant layer-not-flushed: -DBUG_LAYER_NOT_FLUSHED
//@ bug: never-flushed at layer
//@ tier: slow
//@ variant kind-apart: -DBUG_KIND_APART
//@ bug: torn-update|stored-after-commit at kind
//@ tier: slow
//@ variant update-not-flushed: -DBUG_UPDATE_NOT_FLUSHED
//@ bug: never-flushed at update
//@ tier: slow
//@ variant used-not-flushed: -DBUG_USED_NOT_FLUSHED
//@ bug: never-flushed at used
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#define KEYS 14
#define KEY_OF(thread, i) ((i) % 3 == 0 ? ((uint64_t)(i) << 32 | 7) : (5ull << 32 | (i)))
#include "driver.h"

#ifdef BUG_ALL
#define BUG_ENTRY_NOT_FLUSHED
#define BUG_PERMUTATION_NOT_FLUSHED
#define BUG_RIGHT_NOT_FLUSHED
#define BUG_UPDATE_NOT_FLUSHED
#endif

namespace {

constexpr unsigned WIDTH = 6;   // entries of a leaf
constexpr unsigned LEAVES = 32; // in the pool

// A value, or the number of the leaf where the next layer begins, told apart by the lowest bit.
using Slot = uint64_t;
Slot value_slot(uint64_t value) { return value << 1; }
Slot layer_slot(uint64_t leaf) { return leaf << 1 | 1; }
bool is_layer(Slot slot) { return slot & 1; }

// The order of the entries: how many there are in the lowest byte, then one byte for the place of each.
struct Permutation {
  uint64_t word;
  unsigned count() const { return word & 0xff; }
  unsigned at(unsigned i) const { return (word >> (8 * (i + 1))) & 0xff; }
  static Permutation of(const unsigned *places, unsigned count) {
    uint64_t word = count;
    for (unsigned i = 0; i < count; i++)
      word |= uint64_t(places[i]) << (8 * (i + 1));
    return {word};
  }
};

struct Leaf {
  alignas(LINE) uint64_t permutation;
  uint64_t next;   // the leaf to the right, 0: none
  uint64_t lowest; // no smaller key is here or further right
#ifdef BUG_KIND_APART
  uint64_t layers; // a bit per entry
#endif
  alignas(LINE) uint64_t keys[WIDTH];
  alignas(LINE) Slot slots[WIDTH];
};

struct Pool {
  alignas(LINE) uint64_t magic;
  alignas(LINE) uint64_t root; // leaf where the first layer begins
  alignas(LINE) uint64_t used;
  alignas(LINE) progress steps[THREADS];
  Leaf leaves[LEAVES];
};

constexpr uint64_t MAGIC = 0x6d617373;
Pool *pool;

Leaf *leaf(uint64_t number) { return &pool->leaves[number]; }

uint64_t new_leaf() {
  uint64_t number = pool->used;
  if (number >= LEAVES)
    exit(3);
  pool->used = number + 1; // MARK: used
#ifndef BUG_USED_NOT_FLUSHED
  persist(&pool->used, sizeof pool->used);
#endif
  memset(static_cast<void *>(leaf(number)), 0, sizeof(Leaf));
  return number;
}

// The leaf of a layer that a key belongs to.
uint64_t find_leaf(uint64_t number, uint64_t key) {
  while (leaf(number)->next && leaf(leaf(number)->next)->lowest <= key)
    number = leaf(number)->next;
  return number;
}

// The place of a key in a leaf, or -1.
int find_place(const Leaf *l, uint64_t key) {
  Permutation order{l->permutation};
  for (unsigned i = 0; i < order.count(); i++)
    if (l->keys[order.at(i) % WIDTH] == key)
      return int(order.at(i) % WIDTH);
  return -1;
}

void set_permutation(Leaf *l, Permutation order) {
  l->permutation = order.word; // MARK: permutation
#ifndef BUG_PERMUTATION_NOT_FLUSHED
  persist(&l->permutation, sizeof l->permutation);
#endif
}

// Puts an entry into a place that no permutation names, and then into the order.
void insert_into(Leaf *l, uint64_t key, Slot slot) {
  Permutation order{l->permutation};
  unsigned places[WIDTH], count = order.count(), at = 0, taken = 0;
  for (unsigned i = 0; i < count; i++) {
    places[i] = order.at(i);
    taken |= 1u << places[i];
  }
  unsigned place = 0;
  while (taken >> place & 1)
    place++;
  while (at < count && l->keys[places[at]] < key)
    at++;
  for (unsigned i = count; i > at; i--)
    places[i] = places[i - 1];
  places[at] = place;
  Permutation wider = Permutation::of(places, count + 1);
#ifdef BUG_PERMUTATION_FIRST
  set_permutation(l, wider);
  l->keys[place] = key;   // MARK: after
  l->slots[place] = slot; // MARK: after
  flush(&l->keys[place], sizeof key);
  persist(&l->slots[place], sizeof slot);
#else
#ifdef BUG_ENTRY_FLUSHED_EARLY
  flush(&l->keys[place], sizeof key);
  persist(&l->slots[place], sizeof slot);
  l->keys[place] = key;   // MARK: late
  l->slots[place] = slot; // MARK: late
#else
  l->keys[place] = key;   // MARK: entry
  l->slots[place] = slot; // MARK: entry
#ifdef BUG_ENTRY_NOT_FENCED
  flush(&l->keys[place], sizeof key);
  flush(&l->slots[place], sizeof slot);
#elif !defined BUG_ENTRY_NOT_FLUSHED
  flush(&l->keys[place], sizeof key);
  persist(&l->slots[place], sizeof slot);
#endif
#endif
  set_permutation(l, wider);
#endif
}

// Moves the upper half to a new leaf: linked first, cut off then.
void split(Leaf *l) {
  Permutation order{l->permutation};
  unsigned half = order.count() / 2, places[WIDTH];
  uint64_t number = new_leaf();
  Leaf *right = leaf(number);
  for (unsigned i = half; i < order.count(); i++) {
    right->keys[i - half] = l->keys[order.at(i)];   // MARK: right
    right->slots[i - half] = l->slots[order.at(i)]; // MARK: right
    places[i - half] = i - half;
  }
  right->permutation = Permutation::of(places, order.count() - half).word; // MARK: right
  right->lowest = right->keys[0]; // MARK: right
  right->next = l->next;          // MARK: right
#ifdef BUG_RIGHT_FIRST_LINE
  persist(right, LINE);
#elif !defined BUG_RIGHT_NOT_FLUSHED
  persist(right, sizeof *right);
#endif
  for (unsigned i = 0; i < half; i++)
    places[i] = order.at(i);
#ifdef BUG_CUT_BEFORE_LINK
  l->permutation = Permutation::of(places, half).word; // MARK: cut
  persist(&l->permutation, sizeof l->permutation);
  l->next = number; // MARK: cut
  persist(&l->next, sizeof number);
#else
  l->next = number;
  persist(&l->next, sizeof number);
  set_permutation(l, Permutation::of(places, half));
#endif
}

void layer_insert(uint64_t first, uint64_t key, Slot slot) {
  for (;;) {
    Leaf *l = leaf(find_leaf(first, key));
    if (Permutation{l->permutation}.count() < WIDTH) {
      insert_into(l, key, slot);
      return;
    }
    split(l);
  }
}

uint64_t new_layer(uint64_t key, uint64_t value) {
  uint64_t number = new_leaf();
  Leaf *l = leaf(number);
  unsigned place = 0;
  l->keys[0] = key;                                  // MARK: layer
  l->slots[0] = value_slot(value);                   // MARK: layer
  l->permutation = Permutation::of(&place, 1).word;  // MARK: layer
#ifndef BUG_LAYER_NOT_FLUSHED
  persist(l, sizeof *l);
#endif
  return number;
}

void create() {
  pool->used = 1;
  persist(&pool->used, sizeof pool->used);
  uint64_t number = new_leaf();
  leaf(number)->lowest = 0;
  unsigned none = 0;
  leaf(number)->permutation = Permutation::of(&none, 0).word;
  persist(leaf(number), sizeof(Leaf));
  pool->root = number; // MARK: root
#ifdef BUG_ROOT_OBJECT_FLUSHED
  persist(leaf(pool->root), sizeof(Leaf));
#else
  persist(&pool->root, sizeof pool->root);
#endif
  pool->magic = MAGIC;
  persist(&pool->magic, sizeof pool->magic);
}

} // namespace

static void map_put(uint64_t key, uint64_t value) {
  uint64_t high = key >> 32, low = key & 0xffffffff;
  Leaf *l = leaf(find_leaf(pool->root, high));
  int place = find_place(l, high);
  if (place < 0) {
    layer_insert(pool->root, high, layer_slot(new_layer(low, value)));
    return;
  }
  uint64_t layer = l->slots[place] >> 1;
  VERIFY(is_layer(l->slots[place]));
  Leaf *inner = leaf(find_leaf(layer, low));
  int at = find_place(inner, low);
  if (at < 0) {
    layer_insert(layer, low, value_slot(value));
    return;
  }
#ifdef BUG_KIND_APART
  inner->layers |= 1ull << at; // MARK: kind
  persist(&inner->layers, sizeof inner->layers);
  inner->slots[at] = value_slot(value); // MARK: kind
  persist(&inner->slots[at], sizeof(Slot));
  inner->layers &= ~(1ull << at); // MARK: kind
  persist(&inner->layers, sizeof inner->layers);
#else
  inner->slots[at] = value_slot(value); // MARK: update
#ifndef BUG_UPDATE_NOT_FLUSHED
  persist(&inner->slots[at], sizeof(Slot));
#endif
#endif
}

static uint64_t map_get(uint64_t key) {
  Leaf *l = leaf(find_leaf(pool->root, key >> 32));
  int place = find_place(l, key >> 32);
  if (place < 0)
    return 0;
  Leaf *inner = leaf(find_leaf(l->slots[place] >> 1, key & 0xffffffff));
  int at = find_place(inner, key & 0xffffffff);
#ifdef BUG_KIND_APART
  VERIFY(at < 0 || !(inner->layers >> at & 1));
#endif
  return at < 0 ? 0 : inner->slots[at] >> 1;
}

static void map_delete(uint64_t key) {
  Leaf *l = leaf(find_leaf(pool->root, key >> 32));
  int place = find_place(l, key >> 32);
  if (place < 0)
    return;
  Leaf *inner = leaf(find_leaf(l->slots[place] >> 1, key & 0xffffffff));
  Permutation order{inner->permutation};
  unsigned places[WIDTH], count = 0;
  for (unsigned i = 0; i < order.count(); i++)
    if (inner->keys[order.at(i)] != (key & 0xffffffff))
      places[count++] = order.at(i);
  if (count < order.count())
    set_permutation(inner, Permutation::of(places, count));
}

// A crash in a split leaves entries in both leaves: those that belong to the right are cut off on the left.
static void recover_layer(uint64_t number, int depth) {
  for (; number; number = leaf(number)->next) {
    VERIFY(number < pool->used && number < LEAVES);
    Leaf *l = leaf(number);
    Permutation order{l->permutation};
    VERIFY(order.count() <= WIDTH);
    unsigned places[WIDTH], count = 0;
    for (unsigned i = 0; i < order.count(); i++)
      if (!l->next || l->keys[order.at(i)] < leaf(l->next)->lowest)
        places[count++] = order.at(i);
    if (count < order.count())
      set_permutation(l, Permutation::of(places, count));
    for (unsigned i = 0; depth == 0 && i < count; i++)
      if (is_layer(l->slots[places[i]]))
        recover_layer(l->slots[places[i]] >> 1, 1);
  }
}

int main(int argc, char **argv) {
  pool = static_cast<Pool *>(pool_map(argc > 1 ? argv[1] : "/mnt/pmem/masstree", sizeof(Pool)));
  bool fresh = pool->magic != MAGIC;
  if (fresh)
    create();
  else {
    VERIFY(pool->root);
    recover_layer(pool->root, 0);
  }
  driver_run(pool->steps, fresh);
  return 0;
}
