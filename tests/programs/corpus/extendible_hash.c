// Extendible hashing with directory doubling, as CCEH does it: a directory of pointers to segments, segments of buckets of
// one cache line, a segment splits when a bucket is full. Keys are committed by an eight-byte store, after their value.
//@ args: {dir}/pool
//@ cflags: -O1
//@ variant correct:
//@ variant segment-not-flushed: -DBUG_SEGMENT_NOT_FLUSHED
//@ bug: never-flushed at depth
//@ like: Jaaru 13.2
//@ variant key-before-value: -DBUG_KEY_BEFORE_VALUE
//@ bug: torn-update|stored-after-commit at value
//@ variant used-not-flushed: -DBUG_USED_NOT_FLUSHED
//@ bug: never-flushed at used
//@ like: Jaaru 13.3
//@ tier: slow
//@ variant key-not-flushed: -DBUG_KEY_NOT_FLUSHED
//@ bug: never-flushed at key
//@ like: PSan.3
//@ tier: slow
//@ variant create-not-flushed: -DBUG_CREATE_NOT_FLUSHED
//@ bug: never-flushed at create
//@ like: Jaaru 13.1, PSan.4, PSan.6
//@ tier: slow
//@ variant directory-partly-flushed: -DBUG_DIRECTORY_PARTLY_FLUSHED
//@ bug: flush-covers-too-little at doubled
//@ tier: slow
//@ variant directory-not-flushed: -DBUG_DIRECTORY_NOT_FLUSHED
//@ bug: never-flushed at doubled
//@ like: PSan.5
//@ tier: slow
//@ variant moved-not-flushed: -DBUG_MOVED_NOT_FLUSHED
//@ bug: never-flushed at key
//@ tier: slow
//@ variant pointer-not-flushed: -DBUG_POINTER_NOT_FLUSHED
//@ bug: never-flushed at pointer
//@ tier: slow
//@ variant freed-not-flushed: -DBUG_FREED_NOT_FLUSHED
//@ bug: never-flushed at freed
//@ tier: slow
//@ variant update-not-flushed: -DBUG_UPDATE_NOT_FLUSHED
//@ bug: never-flushed at update
//@ tier: slow
//@ variant delete-not-flushed: -DBUG_DELETE_NOT_FLUSHED
//@ bug: never-flushed at deleted
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#define KEYS 40
#include "driver.h"

#ifdef BUG_ALL
#define BUG_SEGMENT_NOT_FLUSHED
#define BUG_USED_NOT_FLUSHED
#define BUG_KEY_NOT_FLUSHED
#define BUG_CREATE_NOT_FLUSHED
#define BUG_DIRECTORY_NOT_FLUSHED
#define BUG_MOVED_NOT_FLUSHED
#define BUG_POINTER_NOT_FLUSHED
#define BUG_FREED_NOT_FLUSHED
#define BUG_UPDATE_NOT_FLUSHED
#define BUG_DELETE_NOT_FLUSHED
#endif

#define SLOTS 4            /* in a bucket: one cache line */
#define BUCKETS 2          /* in a segment */
#define SEGMENTS 24        /* in the pool */
#define MAX_DEPTH 5

struct slot {
  uint64_t key; /* 0: free; stored last */
  uint64_t value;
};

struct bucket {
  _Alignas(LINE) struct slot slots[SLOTS];
};

struct segment {
  struct bucket buckets[BUCKETS];
  _Alignas(LINE) uint64_t local_depth;
};

struct directory {
  _Alignas(LINE) uint64_t depth;
  uint64_t segments[1 << MAX_DEPTH];
};

struct table {
  _Alignas(LINE) uint64_t magic;
  _Alignas(LINE) uint64_t current; /* which directory counts: the switch is one store */
  struct directory directories[MAX_DEPTH + 1];
  _Alignas(LINE) uint64_t used; /* segments handed out */
  _Alignas(LINE) struct progress progress[THREADS];
  struct segment segments[SEGMENTS];
};

#define MAGIC 0x4343454855ull

static uint64_t hash(uint64_t key) {
  key ^= key >> 33;
  key *= 0x9e3779b97f4a7c15ull;
  return key ^ key >> 29;
}

static uint32_t segment_new(struct table *table, uint64_t depth) {
  uint32_t number = (uint32_t)table->used;
  VERIFY(number < SEGMENTS);
  struct segment *segment = &table->segments[number];
  memset(segment, 0, sizeof *segment); // MARK: depth
  segment->local_depth = depth; // MARK: depth
#ifndef BUG_SEGMENT_NOT_FLUSHED
  persist(segment, sizeof *segment);
#endif
  table->used = number + 1; // MARK: used
#ifndef BUG_USED_NOT_FLUSHED
  persist(&table->used, sizeof table->used);
#endif
  return number;
}

static void table_create(struct table *table) {
  table->current = 0;
  table->used = 0;
  struct directory *directory = &table->directories[0];
  directory->depth = 1; // MARK: create
  directory->segments[0] = segment_new(table, 1);
  directory->segments[1] = segment_new(table, 1); // MARK: create
#ifndef BUG_CREATE_NOT_FLUSHED
  persist(table, offsetof(struct table, segments));
#endif
  table->magic = MAGIC;
  persist(&table->magic, sizeof table->magic);
}

static struct bucket *bucket_of(struct table *table, uint64_t key) {
  struct directory *directory = &table->directories[table->current];
  uint64_t at = hash(key) >> (64 - directory->depth);
  struct segment *segment = &table->segments[directory->segments[at]];
  return &segment->buckets[hash(key) % BUCKETS];
}

static uint64_t *table_find(struct table *table, uint64_t key) {
  struct bucket *bucket = bucket_of(table, key);
  for (int i = 0; i < SLOTS; i++)
    if (bucket->slots[i].key == key)
      return &bucket->slots[i].value;
  return NULL;
}

static int bucket_put(struct bucket *bucket, uint64_t key, uint64_t value, int durable) {
  for (int i = 0; i < SLOTS; i++) {
    struct slot *slot = &bucket->slots[i];
    if (slot->key)
      continue;
#ifdef BUG_KEY_BEFORE_VALUE
    slot->key = key;
    slot->value = value; // MARK: value
#else
    slot->value = value; // MARK: key
    slot->key = key; // MARK: key
#endif
#ifdef BUG_KEY_NOT_FLUSHED
    durable = 0;
#endif
    if (durable)
      persist(slot, sizeof *slot);
    return 1;
  }
  return 0;
}

/* The directory with twice the entries, which counts once it is complete. */
static void directory_double(struct table *table) {
  struct directory *old = &table->directories[table->current];
  struct directory *wide = old + 1;
  VERIFY(old->depth < MAX_DEPTH);
  wide->depth = old->depth + 1; // MARK: doubled
  for (uint64_t i = 0; i < 1ull << wide->depth; i++)
    wide->segments[i] = old->segments[i / 2]; // MARK: doubled
#ifdef BUG_DIRECTORY_PARTLY_FLUSHED
  persist(wide, LINE);
#elif !defined BUG_DIRECTORY_NOT_FLUSHED
  persist(wide, sizeof *wide);
#endif
  table->current++;
  persist(&table->current, sizeof table->current);
}

static void segment_split(struct table *table, uint64_t key) {
  struct directory *directory = &table->directories[table->current];
  struct segment *old = &table->segments[directory->segments[hash(key) >> (64 - directory->depth)]];
  if (old->local_depth == directory->depth) {
    directory_double(table);
    directory = &table->directories[table->current];
  }
  uint64_t depth = old->local_depth + 1;
  uint32_t number = segment_new(table, depth);
  struct segment *right = &table->segments[number];
  for (int b = 0; b < BUCKETS; b++) {
    for (int i = 0; i < SLOTS; i++) {
      struct slot *slot = &old->buckets[b].slots[i];
      if (slot->key && hash(slot->key) >> (64 - depth) & 1)
        bucket_put(&right->buckets[b], slot->key, slot->value, 0);
    }
  }
#ifndef BUG_MOVED_NOT_FLUSHED
  persist(right->buckets, sizeof right->buckets);
#endif
  /* From right to left, so that a reader never finds a hole. */
  uint64_t first = hash(key) >> (64 - old->local_depth) << (directory->depth - old->local_depth);
  uint64_t half = 1ull << (directory->depth - depth);
  for (uint64_t i = 0; i < half; i++)
    directory->segments[first + half + i] = number; // MARK: pointer
#ifndef BUG_POINTER_NOT_FLUSHED
  persist(&directory->segments[first + half], half * sizeof directory->segments[0]);
#endif
  old->local_depth = depth; // MARK: old-depth
  persist(&old->local_depth, sizeof old->local_depth);
  /* What moved is stale on the left: free slots again. */
  for (int b = 0; b < BUCKETS; b++) {
    for (int i = 0; i < SLOTS; i++)
      if (old->buckets[b].slots[i].key && hash(old->buckets[b].slots[i].key) >> (64 - depth) & 1)
        old->buckets[b].slots[i].key = 0; // MARK: freed
#ifndef BUG_FREED_NOT_FLUSHED
    persist(&old->buckets[b], sizeof old->buckets[b]);
#endif
  }
}

static void table_insert(struct table *table, uint64_t key, uint64_t value) {
  while (!bucket_put(bucket_of(table, key), key, value, 1))
    segment_split(table, key);
}

/* A crash in a split leaves the left segment with its old depth, or with keys that have moved. */
static void table_recover(struct table *table) {
  struct directory *directory = &table->directories[table->current];
  for (uint64_t i = 0; i < 1ull << directory->depth;) {
    struct segment *segment = &table->segments[directory->segments[i]];
    uint64_t same = 1;
    while (i + same < 1ull << directory->depth && directory->segments[i + same] == directory->segments[i])
      same++;
    uint64_t depth = directory->depth;
    for (uint64_t n = same; n > 1; n /= 2)
      depth--;
    if (segment->local_depth != depth) {
      segment->local_depth = depth;
      persist(&segment->local_depth, sizeof segment->local_depth);
    }
    for (int b = 0; b < BUCKETS; b++) {
      for (int s = 0; s < SLOTS; s++) {
        struct slot *slot = &segment->buckets[b].slots[s];
        if (slot->key && hash(slot->key) >> (64 - depth) != i >> (directory->depth - depth)) {
          slot->key = 0;
          persist(slot, sizeof *slot);
        }
      }
    }
    i += same;
  }
}

static struct table *table;

static void map_put(uint64_t key, uint64_t value) {
  uint64_t *old = table_find(table, key);
  if (!old) {
    table_insert(table, key, value);
    return;
  }
  *old = value; // MARK: update
#ifndef BUG_UPDATE_NOT_FLUSHED
  persist(old, sizeof *old);
#endif
}

static uint64_t map_get(uint64_t key) {
  uint64_t *value = table_find(table, key);
  return value ? *value : 0;
}

static void map_delete(uint64_t key) {
  struct bucket *bucket = bucket_of(table, key);
  for (int i = 0; i < SLOTS; i++) {
    if (bucket->slots[i].key != key)
      continue;
    bucket->slots[i].key = 0; // MARK: deleted
#ifndef BUG_DELETE_NOT_FLUSHED
    persist(&bucket->slots[i], sizeof bucket->slots[i]);
#endif
  }
}

int main(int argc, char **argv) {
  table = pool_map(argc > 1 ? argv[1] : "/mnt/pmem/table", sizeof(struct table));
  int fresh = table->magic != MAGIC;
  if (fresh)
    table_create(table);
  else
    table_recover(table);
  driver_run(table->progress, fresh);
  return 0;
}
