#include "engine.h"

#include <assert.h>
#include <libpmem.h>
#include <string.h>

#define KEYS 6

/* Page 0. */
enum { MAGIC, ROOT, USED };
#define READY 0x637261736870726fu

/* A node: how many keys, whether it is a leaf, then keys, then values or children. */
enum { COUNT, LEAF, FIRST_KEY, FIRST_VALUE = FIRST_KEY + KEYS };

/* A change: the pages that it touches, in ordinary memory until it is committed. */
struct change {
  struct pool *pool;
  size_t count;
  uint64_t numbers[LOGGED];
  struct page pages[LOGGED];
};

/* A page as it will be. */
static uint64_t *page_of(struct change *change, uint64_t number) {
  for (size_t i = 0; i < change->count; i++)
    if (change->numbers[i] == number)
      return change->pages[i].words;
  assert(change->count < LOGGED && number < POOL_PAGES);
  change->numbers[change->count] = number;
  change->pages[change->count] = change->pool->pages[number];
  return change->pages[change->count++].words;
}

/* Copies what the log holds to where it belongs, and empties it. */
static void replay(struct pool *pool) {
  if (!pool->committed)
    return;
  for (uint64_t i = 0; i < pool->committed; i++) {
    struct entry *entry = &pool->entries[i];
    struct page *page = &pool->pages[entry->number];
    memcpy(page, &entry->page, sizeof *page);
    pmem_persist(page, sizeof *page);
  }
  pool->committed = 0;
  pmem_persist(&pool->committed, sizeof pool->committed);
}

/* Makes the change: all of it, or nothing if the power fails first. */
static void commit(struct change *change) {
  struct pool *pool = change->pool;
  for (size_t i = 0; i < change->count; i++) {
    struct entry *entry = &pool->entries[i];
    entry->page = change->pages[i];
    entry->number = change->numbers[i];
    pmem_persist(entry, sizeof *entry);
  }
  pool->committed = change->count;
  pmem_persist(&pool->committed, sizeof pool->committed);
  replay(pool);
}

void engine_open(struct pool *pool) {
  replay(pool);
  uint64_t *meta = pool->pages[0].words;
  if (meta[MAGIC] == READY)
    return;
  pool->pages[1].words[LEAF] = 1;
  pmem_persist(&pool->pages[1].words[LEAF], sizeof pool->pages[1].words[LEAF]);
  /* One cache line, which persists in the order of its stores. */
  meta[ROOT] = 1;
  meta[USED] = 2;
  meta[MAGIC] = READY;
  pmem_persist(&pool->pages[0], sizeof pool->pages[0]);
}

/* The first key of a node that is not below another. */
static size_t position(const uint64_t *node, uint64_t key) {
  size_t at = 0;
  while (at < node[COUNT] && node[FIRST_KEY + at] < key)
    at++;
  return at;
}

/* The leaf for a key, and the branches above it, the root first. */
static uint64_t find(const struct pool *pool, uint64_t key, uint64_t *above, size_t *depth) {
  uint64_t number = pool->pages[0].words[ROOT];
  *depth = 0;
  while (!pool->pages[number].words[LEAF]) {
    const uint64_t *node = pool->pages[number].words;
    above[(*depth)++] = number;
    size_t at = 0;
    while (at < node[COUNT] && node[FIRST_KEY + at] <= key)
      at++;
    number = node[FIRST_VALUE + at];
  }
  return number;
}

bool engine_get(const struct pool *pool, uint64_t key, uint64_t *value) {
  uint64_t above[POOL_PAGES];
  size_t depth;
  const uint64_t *leaf = pool->pages[find(pool, key, above, &depth)].words;
  size_t at = position(leaf, key);
  if (at == leaf[COUNT] || leaf[FIRST_KEY + at] != key)
    return false;
  *value = leaf[FIRST_VALUE + at];
  return true;
}

static size_t scan(const struct pool *pool, uint64_t number, void (*visit)(uint64_t, uint64_t, void *), void *data) {
  const uint64_t *node = pool->pages[number].words;
  size_t found = 0;
  if (node[LEAF]) {
    for (size_t i = 0; i < node[COUNT]; i++)
      visit(node[FIRST_KEY + i], node[FIRST_VALUE + i], data);
    return node[COUNT];
  }
  for (size_t i = 0; i <= node[COUNT]; i++)
    found += scan(pool, node[FIRST_VALUE + i], visit, data);
  return found;
}

size_t engine_scan(const struct pool *pool, void (*visit)(uint64_t, uint64_t, void *), void *data) {
  return scan(pool, pool->pages[0].words[ROOT], visit, data);
}

/* Makes room for a key and a value, or child. */
static void insert(uint64_t *node, size_t key_at, uint64_t key, size_t value_at, uint64_t value) {
  size_t count = node[COUNT];
  size_t values = count + (!node[LEAF] && value_at > key_at);
  memmove(&node[FIRST_KEY + key_at + 1], &node[FIRST_KEY + key_at], (count - key_at) * sizeof *node);
  memmove(&node[FIRST_VALUE + value_at + 1], &node[FIRST_VALUE + value_at], (values - value_at) * sizeof *node);
  node[FIRST_KEY + key_at] = key;
  node[FIRST_VALUE + value_at] = value;
  node[COUNT]++;
}

/* Splits a full node; the branch that got a key by it. `parent` is 0 for the root. */
static uint64_t split(struct change *change, uint64_t number, uint64_t parent) {
  uint64_t node[PAGE_WORDS], left[PAGE_WORDS] = {0}, right[PAGE_WORDS] = {0};
  memcpy(node, page_of(change, number), sizeof node);
  size_t half = KEYS / 2;
  /* A leaf keeps all keys; the middle key of a branch moves up. */
  size_t skipped = !node[LEAF];
  left[LEAF] = right[LEAF] = node[LEAF];
  for (size_t i = 0; i < half; i++)
    insert(left, i, node[FIRST_KEY + i], i, node[FIRST_VALUE + i]);
  for (size_t i = half + skipped; i < KEYS; i++)
    insert(right, right[COUNT], node[FIRST_KEY + i], right[COUNT], node[FIRST_VALUE + i]);
  if (!node[LEAF]) {
    left[FIRST_VALUE + half] = node[FIRST_VALUE + half];
    right[FIRST_VALUE + right[COUNT]] = node[FIRST_VALUE + KEYS];
  }
  uint64_t *meta = page_of(change, 0);
  uint64_t new = meta[USED]++;
  if (!parent)
    parent = meta[ROOT] = meta[USED]++;
  assert(parent < POOL_PAGES && new < POOL_PAGES);
  memcpy(page_of(change, number), left, sizeof left);
  memcpy(page_of(change, new), right, sizeof right);
  uint64_t *branch = page_of(change, parent);
  if (!branch[COUNT])
    branch[FIRST_VALUE] = number;
  uint64_t middle = node[FIRST_KEY + half];
  size_t at = position(branch, middle);
  insert(branch, at, middle, at + 1, new);
  return parent;
}

void engine_put(struct pool *pool, uint64_t key, uint64_t value) {
  struct change change = {.pool = pool};
  uint64_t above[POOL_PAGES];
  size_t depth;
  uint64_t number = find(pool, key, above, &depth);
  uint64_t *leaf = page_of(&change, number);
  size_t at = position(leaf, key);
  if (at < leaf[COUNT] && leaf[FIRST_KEY + at] == key)
    leaf[FIRST_VALUE + at] = value;
  else
    insert(leaf, at, key, at, value);
  while (page_of(&change, number)[COUNT] == KEYS)
    number = split(&change, number, depth ? above[--depth] : 0);
  commit(&change);
}
