// A tree of delta chains behind a mapping table, as P-BwTree: an update puts a record in front of a page's chain with one
// compare-and-swap, long chains are consolidated, full pages split in two steps, and what a consolidation replaces goes
// to a garbage list that is emptied between operations. The heap is persistent; two threads.
//@ cflags: -O1
//@ flags lint: --pm-heap
//@ flags check: --pm-heap --schedules 1
//@ variant correct:
//@ variant tree-not-flushed: -DBUG_TREE_NOT_FLUSHED
//@ bug: never-flushed at tree
//@ like: Jaaru 13.14, PSan.28
//@ tier: slow
//@ variant epochs-not-flushed: -DBUG_EPOCHS_NOT_FLUSHED
//@ bug: never-flushed at epochs
//@ like: Jaaru 13.11, PSan.25
//@ variant chunk-not-flushed: -DBUG_CHUNK_NOT_FLUSHED
//@ bug: never-flushed at chunk
//@ like: Jaaru 13.12, Jaaru 13.13, PSan.26, PSan.27
//@ tier: slow
//@ variant delta-not-flushed: -DBUG_DELTA_NOT_FLUSHED
//@ bug: never-flushed at delta
//@ tier: slow
//@ variant delta-flushed-early: -DBUG_DELTA_FLUSHED_EARLY
//@ bug: never-flushed at delta-late
//@ tier: slow
//@ variant mapping-not-flushed: -DBUG_MAPPING_NOT_FLUSHED
//@ bug: never-flushed at install
//@ variant page-not-flushed: -DBUG_PAGE_NOT_FLUSHED
//@ bug: never-flushed at page
//@ tier: slow
//@ variant page-header-only: -DBUG_PAGE_HEADER_ONLY
//@ bug: flush-covers-too-little at page
//@ tier: slow
//@ variant split-in-one-step: -DBUG_SPLIT_IN_ONE_STEP
//@ bug: stored-after-commit|torn-update|recovery-wrong at install
//@ tier: slow
//@ variant chunk-link-not-flushed: -DBUG_CHUNK_LINK_NOT_FLUSHED
//@ bug: never-flushed at chunk-link
//@ like: PSan.24
//@ tier: slow
//@ variant freed-before-forgotten: -DBUG_FREED_BEFORE_FORGOTTEN
//@ bug: stored-after-commit|recovery-wrong at forgotten
//@ like: Jaaru 13.10
//@ flags check: --crashes 2
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#define THREADS 2
#define KEYS 8
#define KEY_OF(thread, i) (2 * (uint64_t)(i) + (thread))
#include "driver.h"

#include <atomic>

#ifdef BUG_ALL
#define BUG_CHUNK_NOT_FLUSHED
#define BUG_DELTA_NOT_FLUSHED
#define BUG_MAPPING_NOT_FLUSHED
#define BUG_PAGE_NOT_FLUSHED
#define BUG_CHUNK_LINK_NOT_FLUSHED
#endif

namespace {

constexpr int PAGES = 16;    // in the mapping table
constexpr int MOST = 8;      // entries of a page
constexpr int LONGEST = 3;   // deltas before a consolidation
constexpr int CHUNK = 2;     // garbage per chunk

enum class Kind : uint64_t { Page, Insert, Delete };

// A record of a chain: a delta, or the page at its end.
struct alignas(LINE) Record {
  Kind kind;
  uint64_t depth; // deltas in front of the page
  Record *next;
  uint64_t key, value;
};

struct alignas(LINE) Page : Record {
  uint64_t count;
  uint64_t right; // page with the keys from `high` on, 0: none
  uint64_t high;
  alignas(LINE) uint64_t keys[MOST];
  alignas(LINE) uint64_t values[MOST];
};

// Garbage of one thread, in chunks that are added as needed.
struct alignas(LINE) Chunk {
  uint64_t count;
  Chunk *next;
  Record *records[CHUNK];
};

struct Epochs {
  alignas(LINE) Chunk *garbage[THREADS];
};

struct Tree {
  alignas(LINE) std::atomic<Record *> mapping[PAGES]; // page 1 is the leftmost
  alignas(LINE) std::atomic<uint64_t> used;
  alignas(LINE) Epochs *epochs;
  alignas(LINE) progress steps[THREADS];
};

PERSISTENT Tree *tree;
std::atomic<uint64_t> next_thread;
thread_local uint64_t self = next_thread++ % THREADS;

Chunk *new_chunk() {
  auto *chunk = new Chunk;
  memset(static_cast<void *>(chunk), 0, sizeof *chunk); // MARK: chunk
#ifndef BUG_CHUNK_NOT_FLUSHED
  persist(chunk, sizeof *chunk);
#endif
  return chunk;
}

// Remembers a chain that was replaced.
void discard(Record *record) {
  Chunk *chunk = tree->epochs->garbage[self];
  if (chunk->count == CHUNK) {
    Chunk *fresh = new_chunk();
    fresh->next = chunk;
    persist(fresh, sizeof *fresh);
    tree->epochs->garbage[self] = fresh; // MARK: chunk-link
#ifndef BUG_CHUNK_LINK_NOT_FLUSHED
    persist(&tree->epochs->garbage[self], sizeof fresh);
#endif
    chunk = fresh;
  }
  chunk->records[chunk->count] = record;
  persist(&chunk->records[chunk->count], sizeof record);
  chunk->count++;
  persist(&chunk->count, sizeof chunk->count);
}

// Frees the garbage of a thread once nobody can see it: after a crash, or at the end. What is freed is forgotten first.
void collect(uint64_t thread) {
  for (Chunk *chunk = tree->epochs->garbage[thread]; chunk; chunk = chunk->next) {
    while (chunk->count) {
      VERIFY(chunk->count <= CHUNK);
      Record *record = chunk->records[chunk->count - 1];
#ifdef BUG_FREED_BEFORE_FORGOTTEN
      while (record->kind != Kind::Page) {
        Record *next = record->next;
        record->kind = Kind(99); // what the heap does to memory that is free
        record->next = nullptr;  // MARK: forgotten
        persist(record, sizeof *record);
        record = next;
      }
      chunk->count--;
      persist(&chunk->count, sizeof chunk->count);
#else
      chunk->count--;
      persist(&chunk->count, sizeof chunk->count);
      while (record) {
        Record *next = record->kind == Kind::Page ? nullptr : record->next;
        free(record);
        record = next;
      }
#endif
    }
  }
}

bool install(uint64_t page, Record *before, Record *after) {
  bool done = tree->mapping[page].compare_exchange_strong(before, after); // MARK: install
#ifndef BUG_MAPPING_NOT_FLUSHED
  persist(&tree->mapping[page], sizeof after);
#endif
  return done;
}

// What a chain holds, as a page that is not reachable yet.
Page *consolidated(Record *chain) {
  uint64_t keys[MOST + LONGEST + 1], values[MOST + LONGEST + 1], hidden[LONGEST + 1], count = 0, gone = 0;
  for (; chain->kind != Kind::Page; chain = chain->next) {
    bool seen = false;
    for (uint64_t i = 0; i < gone; i++)
      seen |= hidden[i] == chain->key;
    if (seen)
      continue;
    hidden[gone++] = chain->key;
    if (chain->kind == Kind::Insert) {
      keys[count] = chain->key;
      values[count++] = chain->value;
    }
  }
  auto *base = static_cast<Page *>(chain);
  for (uint64_t i = 0; i < base->count; i++) {
    bool seen = false;
    for (uint64_t j = 0; j < gone; j++)
      seen |= hidden[j] == base->keys[i];
    if (!seen) {
      keys[count] = base->keys[i];
      values[count++] = base->values[i];
    }
  }
  if (count > MOST)
    exit(3);
  auto *page = new Page;
  page->kind = Kind::Page;   // MARK: page
  page->depth = 0;           // MARK: page
  page->next = nullptr;      // MARK: page
  page->count = 0;           // MARK: page
  page->right = base->right; // MARK: page
  page->high = base->high;   // MARK: page
  for (; page->count < count; page->count++) { // MARK: page
    uint64_t least = page->count;
    for (uint64_t i = page->count + 1; i < count; i++)
      if (keys[i] < keys[least])
        least = i;
    std::swap(keys[least], keys[page->count]);
    std::swap(values[least], values[page->count]);
    page->keys[page->count] = keys[page->count];     // MARK: page
    page->values[page->count] = values[page->count]; // MARK: page
  }
  return page;
}

void persist_page(Page *page) {
#ifdef BUG_PAGE_HEADER_ONLY
  persist(page, LINE);
#elif !defined BUG_PAGE_NOT_FLUSHED
  persist(page, sizeof *page);
#endif
  (void)page;
}

// Splits a page: the right half becomes reachable by its number first, then the left half is cut and points to it.
bool split(uint64_t number, Record *chain, Page *left) {
  uint64_t sibling = tree->used.fetch_add(1);
  persist(&tree->used, sizeof sibling);
  if (sibling >= PAGES)
    exit(3);
  auto *right = new Page(*left);
  right->count = 0;
  for (uint64_t i = left->count / 2; i < left->count; i++) {
    right->keys[right->count] = left->keys[i];
    right->values[right->count++] = left->values[i];
  }
  persist(right, sizeof *right);
#ifdef BUG_SPLIT_IN_ONE_STEP
  left->count /= 2;
  left->right = sibling;
  left->high = right->keys[0];
  persist_page(left);
  if (!install(number, chain, left)) // MARK: cut
    return false;
  tree->mapping[sibling].store(right);
  persist(&tree->mapping[sibling], sizeof right);
  return true;
#else
  tree->mapping[sibling].store(right, std::memory_order_release);
  persist(&tree->mapping[sibling], sizeof right);
  left->count /= 2;
  left->right = sibling;
  left->high = right->keys[0];
  persist_page(left);
  return install(number, chain, left);
#endif
}

// Page number and chain for a key.
uint64_t find_page(uint64_t key, Record **chain) {
  for (uint64_t number = 1;;) {
    *chain = tree->mapping[number].load();
    Record *at = *chain;
    while (at->kind != Kind::Page)
      at = at->next;
    auto *page = static_cast<Page *>(at);
    if (!page->right || key < page->high)
      return number;
    number = page->right;
  }
}

void put_delta(Kind kind, uint64_t key, uint64_t value) {
  for (;;) {
    Record *chain;
    uint64_t number = find_page(key, &chain);
    // Whoever builds on a chain makes sure that it is reachable.
    persist(&tree->mapping[number], sizeof chain);
    if (chain->depth >= LONGEST) {
      Page *page = consolidated(chain);
      bool done;
      if (page->count > MOST - LONGEST - 1) {
        done = split(number, chain, page);
      } else {
        persist_page(page);
        done = install(number, chain, page);
      }
      if (done)
        discard(chain);
      continue;
    }
    auto *delta = new Record;
#ifdef BUG_DELTA_FLUSHED_EARLY
    persist(delta, sizeof *delta);
    delta->kind = kind;              // MARK: delta-late
    delta->depth = chain->depth + 1; // MARK: delta-late
    delta->next = chain;             // MARK: delta-late
    delta->key = key;                // MARK: delta-late
    delta->value = value;            // MARK: delta-late
#else
    delta->kind = kind;              // MARK: delta
    delta->depth = chain->depth + 1; // MARK: delta
    delta->next = chain;             // MARK: delta
    delta->key = key;                // MARK: delta
    delta->value = value;            // MARK: delta
#ifndef BUG_DELTA_NOT_FLUSHED
    persist(delta, sizeof *delta);
#endif
#endif
    if (install(number, chain, delta))
      return;
    free(delta);
  }
}

Tree *new_tree() {
  auto *fresh = static_cast<Tree *>(aligned_alloc(LINE, sizeof(Tree)));
  memset(static_cast<void *>(fresh), 0, sizeof *fresh); // MARK: tree
  auto *page = new Page;
  memset(static_cast<void *>(page), 0, sizeof *page);
  persist(page, sizeof *page);
  fresh->mapping[1].store(page, std::memory_order_relaxed); // MARK: tree
  fresh->used.store(2, std::memory_order_relaxed);          // MARK: tree
  auto *epochs = new Epochs;
  for (auto &chunk : epochs->garbage)
    chunk = new_chunk(); // MARK: epochs
#ifndef BUG_EPOCHS_NOT_FLUSHED
  persist(epochs, sizeof *epochs);
#endif
  fresh->epochs = epochs; // MARK: tree
#ifndef BUG_TREE_NOT_FLUSHED
  persist(fresh, sizeof *fresh);
#endif
  return fresh;
}

} // namespace

static void map_put(uint64_t key, uint64_t value) { put_delta(Kind::Insert, key, value); }

static void map_delete(uint64_t key) { put_delta(Kind::Delete, key, 0); }

static uint64_t map_get(uint64_t key) {
  Record *chain;
  find_page(key, &chain);
  for (; chain->kind != Kind::Page; chain = chain->next)
    if (chain->key == key)
      return chain->kind == Kind::Insert ? chain->value : 0;
  auto *page = static_cast<Page *>(chain);
  for (uint64_t i = 0; i < page->count; i++)
    if (page->keys[i] == key)
      return page->values[i];
  return 0;
}

int main() {
  bool fresh = !tree;
  if (fresh) {
    tree = new_tree();
    persist(&tree, sizeof tree);
  } else {
    for (uint64_t thread = 0; thread < THREADS; thread++)
      collect(thread);
  }
  driver_run(tree->steps, fresh);
  return 0;
}
