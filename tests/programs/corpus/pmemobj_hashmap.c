// A hash map on libpmemobj without transactions: objects are made by constructors and published by the allocator, and a
// count that a crash may leave too small is recounted, as PMDK's hashmap_atomic does it.
//@ args: {dir}/pool
//@ cflags: -O1 -lpmemobj
//@ flags check: --setup "{program} {dir}/pool create"
//@ robust: skip (a recovery through libpmemobj, which is not rebuilt, takes 30 ms: check judges each variant once)
//@ variant correct:
//@ variant count-persisted-last: -DBUG_BUCKETS_NOT_PERSISTED
//@ bug: never-flushed at nbuckets
//@ tier: slow
//@ variant entry-not-persisted: -DBUG_ENTRY_NOT_PERSISTED
//@ bug: never-flushed at entry
//@ tier: slow
//@ variant entry-first-field: -DBUG_ENTRY_FIRST_FIELD
//@ bug: flush-covers-too-little at entry
//@ tier: slow
//@ variant entry-pointer-persisted: -DBUG_ENTRY_POINTER_PERSISTED
//@ bug: wrong-address-flushed at entry
//@ tier: slow
//@ variant update-not-persisted: -DBUG_UPDATE_NOT_PERSISTED
//@ bug: never-flushed at update
//@ tier: slow
//@ variant update-not-drained: -DBUG_UPDATE_NOT_DRAINED
//@ bug: flushed-not-fenced at update
//@ tier: slow
//@ variant dirty-not-persisted: -DBUG_DIRTY_NOT_PERSISTED
//@ bug: never-flushed at dirty
//@ tier: slow
//@ variant count-not-persisted: -DBUG_COUNT_NOT_PERSISTED
//@ bug: never-flushed at count
//@ tier: slow
//@ variant persisted-twice: -DBUG_PERSISTED_TWICE
//@ bug: redundant at twice
//@ like: DeepMC.6
//@ tier: slow
//@ variant persists-unmodified: -DBUG_PERSISTS_UNMODIFIED
//@ bug: redundant at unmodified
//@ like: DeepMC.7
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#ifndef KEYS
#define KEYS 4
#endif
#include "objects.h"

#include "driver.h"

#ifdef BUG_ALL
#define BUG_BUCKETS_NOT_PERSISTED
#define BUG_ENTRY_NOT_PERSISTED
#define BUG_UPDATE_NOT_PERSISTED
#define BUG_DIRTY_NOT_PERSISTED
#define BUG_COUNT_NOT_PERSISTED
#endif

#define BUCKETS 8

POBJ_LAYOUT_BEGIN(hashmap);
POBJ_LAYOUT_ROOT(hashmap, struct map);
POBJ_LAYOUT_TOID(hashmap, struct buckets);
POBJ_LAYOUT_TOID(hashmap, struct entry);
POBJ_LAYOUT_END(hashmap);

struct entry {
  uint64_t key;
  PMEMoid name;
  uint64_t value;
  char padding[64];
  POBJ_LIST_ENTRY(struct entry) list;
};

struct buckets {
  uint64_t nbuckets;
  POBJ_LIST_HEAD(entries, struct entry) bucket[];
};

struct map {
  struct progress progress[THREADS];
  uint64_t seed;
  uint64_t count;
  uint64_t count_dirty; /* the count is not to be trusted */
  TOID(struct buckets) buckets;
};

struct arguments {
  uint64_t key, value;
};

static TOID(struct map) map;

static int buckets_create(PMEMobjpool *pool, void *object, void *argument) {
  struct buckets *b = object;
  b->nbuckets = *(uint64_t *)argument; // MARK: nbuckets
#ifndef BUG_BUCKETS_NOT_PERSISTED
  pmemobj_persist(pool, &b->nbuckets, sizeof b->nbuckets);
#endif
  pmemobj_memset_persist(pool, b->bucket, 0, b->nbuckets * sizeof b->bucket[0]);
  return 0;
}

static int entry_create(PMEMobjpool *pool, void *object, void *argument) {
  struct entry *e = object;
  const struct arguments *a = argument;
  e->key = a->key;     // MARK: entry
  e->name = OID_NULL;  // MARK: entry
  e->value = a->value; // MARK: entry
#ifdef BUG_ENTRY_FIRST_FIELD
  pmemobj_persist(pool, &e->key, sizeof e->key);
#elif defined BUG_ENTRY_POINTER_PERSISTED
  pmemobj_persist(pool, &e, sizeof e);
#elif !defined BUG_ENTRY_NOT_PERSISTED
  pmemobj_persist(pool, e, offsetof(struct entry, padding));
#endif
#ifdef BUG_PERSISTED_TWICE
  pmemobj_persist(pool, e, offsetof(struct entry, padding)); // MARK: twice
#endif
  return 0;
}

static uint64_t slot_of(uint64_t key) { return (key * 0x9e3779b97f4a7c15ull + D_RO(map)->seed) >> 61; }

static TOID(struct entry) find(uint64_t key) {
  TOID(struct entry) e;
  POBJ_LIST_FOREACH(e, &D_RO(D_RO(map)->buckets)->bucket[slot_of(key)], list) {
    if (D_RO(e)->key == key)
      return e;
  }
  return TOID_NULL(struct entry);
}

static void dirty_set(uint64_t value) {
  D_RW(map)->count_dirty = value; // MARK: dirty
#ifndef BUG_DIRTY_NOT_PERSISTED
  pmemobj_persist(pop, &D_RW(map)->count_dirty, sizeof value);
#endif
}

static void count_set(uint64_t value) {
  D_RW(map)->count = value; // MARK: count
#ifndef BUG_COUNT_NOT_PERSISTED
  pmemobj_persist(pop, &D_RW(map)->count, sizeof value);
#endif
}

static void map_put(uint64_t key, uint64_t value) {
  TOID(struct entry) e = find(key);
  if (!TOID_IS_NULL(e)) {
    D_RW(e)->value = value; // MARK: update
#ifdef BUG_UPDATE_NOT_DRAINED
    pmemobj_flush(pop, &D_RW(e)->value, sizeof value); // MARK: update
#elif !defined BUG_UPDATE_NOT_PERSISTED
    pmemobj_persist(pop, &D_RW(e)->value, sizeof value);
#endif
    return;
  }
  struct arguments arguments = {key, value};
  TOID(struct buckets) buckets = D_RO(map)->buckets;
  dirty_set(1);
  POBJ_LIST_INSERT_NEW_HEAD(pop, &D_RW(buckets)->bucket[slot_of(key)], list, sizeof(struct entry), entry_create,
                            &arguments);
  count_set(D_RO(map)->count + 1);
  dirty_set(0);
}

static void map_delete(uint64_t key) {
  TOID(struct entry) e = find(key);
  if (TOID_IS_NULL(e))
    return;
  TOID(struct buckets) buckets = D_RO(map)->buckets;
  dirty_set(1);
  POBJ_LIST_REMOVE_FREE(pop, &D_RW(buckets)->bucket[slot_of(key)], e, list);
  count_set(D_RO(map)->count - 1);
  dirty_set(0);
}

static uint64_t map_get(uint64_t key) {
  TOID(struct entry) e = find(key);
  return TOID_IS_NULL(e) ? 0 : D_RO(e)->value;
}

static void map_create(void) {
  uint64_t nbuckets = BUCKETS;
  D_RW(map)->seed = 12345;
  pmemobj_persist(pop, &D_RW(map)->seed, sizeof(uint64_t));
#ifdef BUG_PERSISTS_UNMODIFIED
  pmemobj_persist(pop, &D_RW(map)->count, sizeof(uint64_t)); // MARK: unmodified
#endif
  if (pmemobj_alloc(pop, &D_RW(map)->buckets.oid, sizeof(struct buckets) + BUCKETS * sizeof(struct entries),
                    TOID_TYPE_NUM(struct buckets), buckets_create, &nbuckets))
    exit(2);
}

/* Counts again if a crash came between an entry and its count. */
static void map_recover(void) {
  if (!D_RO(map)->count_dirty)
    return;
  uint64_t count = 0;
  for (uint64_t i = 0; i < D_RO(D_RO(map)->buckets)->nbuckets; i++) {
    TOID(struct entry) e;
    POBJ_LIST_FOREACH(e, &D_RO(D_RO(map)->buckets)->bucket[i], list)
      count++;
  }
  count_set(count);
  dirty_set(0);
}

/* Entries are in the buckets of their keys, and there are as many as the count says. */
static void map_verify(void) {
  uint64_t count = 0;
  VERIFY(D_RO(D_RO(map)->buckets)->nbuckets == BUCKETS);
  for (uint64_t i = 0; i < BUCKETS; i++) {
    TOID(struct entry) e;
    POBJ_LIST_FOREACH(e, &D_RO(D_RO(map)->buckets)->bucket[i], list) {
      VERIFY(slot_of(D_RO(e)->key) == i && OID_IS_NULL(D_RO(e)->name));
      count++;
    }
  }
  VERIFY(count == D_RO(map)->count);
}

int main(int argc, char **argv) {
  objects_open(argc, argv, POBJ_LAYOUT_NAME(hashmap));
  map = POBJ_ROOT(pop, struct map);
  if (TOID_IS_NULL(D_RO(map)->buckets))
    map_create();
  map_recover();
  map_verify();
  driver_run(D_RW(map)->progress, 0);
  pmemobj_close(pop);
  return 0;
}
