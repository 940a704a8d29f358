// A hash map on libpmemobj with transactions: buckets are lists of entries, and the map is rebuilt with more buckets once they
// are too full, as PMDK's hashmap_tx does it. Two threads work on it under one lock, which lies in the pool.
//@ args: {dir}/pool
//@ cflags: -O1 -lpmemobj
//@ flags check: --setup "{program} {dir}/pool create" --schedules 1
//@ robust: skip (a recovery through libpmemobj, which is not rebuilt, takes 30 ms: check judges each variant once)
//@ variant correct:
//@ variant head-unlogged: -DBUG_HEAD_UNLOGGED
//@ bug: unlogged|never-flushed at head
//@ like: Jaaru 12.6
//@ tier: slow
//@ variant count-unlogged: -DBUG_COUNT_UNLOGGED
//@ bug: unlogged|never-flushed at count
//@ tier: slow
//@ variant moved-unlogged: -DBUG_MOVED_UNLOGGED
//@ bug: unlogged|never-flushed at moved
//@ tier: slow
//@ variant switch-unlogged: -DBUG_SWITCH_UNLOGGED
//@ bug: unlogged|never-flushed at switch
//@ tier: slow
//@ variant unlinked-unlogged: -DBUG_UNLINKED_UNLOGGED
//@ bug: unlogged|never-flushed at unlinked
//@ tier: slow
//@ variant update-unlogged: -DBUG_UPDATE_UNLOGGED
//@ bug: unlogged|never-flushed at update
//@ tier: slow
//@ variant seed-not-persisted: -DBUG_SEED_NOT_PERSISTED
//@ bug: never-flushed at seed
//@ tier: slow
//@ variant logged-twice: -DBUG_LOGGED_TWICE
//@ bug: redundant at twice
//@ tier: slow
//@ variant empty-transaction: -DBUG_EMPTY_TRANSACTION
//@ bug: redundant at lookup
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#define THREADS 2
#ifndef KEYS
#define KEYS 2
#endif
#include "objects.h"

#include "driver.h"

#ifdef BUG_ALL
#define BUG_HEAD_UNLOGGED
#define BUG_COUNT_UNLOGGED
#define BUG_SWITCH_UNLOGGED
#define BUG_UNLINKED_UNLOGGED
#define BUG_UPDATE_UNLOGGED
#define BUG_SEED_NOT_PERSISTED
#endif

#define FIRST_BUCKETS 2

POBJ_LAYOUT_BEGIN(hashmap_tx);
POBJ_LAYOUT_ROOT(hashmap_tx, struct pool);
POBJ_LAYOUT_TOID(hashmap_tx, struct map);
POBJ_LAYOUT_TOID(hashmap_tx, struct buckets);
POBJ_LAYOUT_TOID(hashmap_tx, struct entry);
POBJ_LAYOUT_END(hashmap_tx);

struct entry {
  uint64_t key, value;
  TOID(struct entry) next;
};

struct buckets {
  uint64_t count;
  TOID(struct entry) heads[];
};

struct map {
  uint64_t seed;
  uint64_t count;
  TOID(struct buckets) buckets;
};

struct pool {
  struct progress progress[THREADS];
  TOID(struct map) map;
  PMEMmutex lock;
};

static TOID(struct pool) pool;

static TOID(struct map) map_of(void) { return D_RO(pool)->map; }

static uint64_t slot_of(uint64_t key, uint64_t count) {
  return ((key * 0x9e3779b97f4a7c15ull + D_RO(map_of())->seed) >> 32) % count;
}

static TOID(struct buckets) buckets_new(uint64_t count) {
  size_t bytes = sizeof(struct buckets) + count * sizeof(TOID(struct entry));
  TOID(struct buckets) b = TX_ZALLOC(struct buckets, bytes);
  D_RW(b)->count = count;
  return b;
}

static void map_create(void) {
  TX_BEGIN(pop) {
    TX_ADD_FIELD(pool, map);
    TOID(struct map) m = TX_ZNEW(struct map);
#ifndef BUG_SEED_NOT_PERSISTED
    D_RW(m)->seed = 0x5eed;
#endif
    D_RW(m)->buckets = buckets_new(FIRST_BUCKETS);
    D_RW(pool)->map = m;
  }
  TX_END
#ifdef BUG_SEED_NOT_PERSISTED
  D_RW(map_of())->seed = 0x5eed; // MARK: seed
#endif
}

/* Moves all entries to twice as many buckets. */
static void map_rebuild(void) {
  TOID(struct map) m = map_of();
  TOID(struct buckets) old = D_RO(m)->buckets;
  TOID(struct buckets) fresh = buckets_new(2 * D_RO(old)->count);
  TX_ADD(old);
  for (uint64_t i = 0; i < D_RO(old)->count; i++) {
    TOID(struct entry) e = D_RO(old)->heads[i];
    while (!TOID_IS_NULL(e)) {
      TOID(struct entry) next = D_RO(e)->next;
      TOID(struct entry) *head = &D_RW(fresh)->heads[slot_of(D_RO(e)->key, D_RO(fresh)->count)];
#ifndef BUG_MOVED_UNLOGGED
      TX_ADD_FIELD(e, next);
#endif
      D_RW(e)->next = *head; // MARK: moved
      *head = e;
      e = next;
    }
  }
#ifndef BUG_SWITCH_UNLOGGED
  TX_ADD_FIELD(m, buckets);
#endif
  D_RW(m)->buckets = fresh; // MARK: switch
  TX_FREE(old);
}

static TOID(struct entry) find(uint64_t key) {
  TOID(struct buckets) b = D_RO(map_of())->buckets;
  TOID(struct entry) e = D_RO(b)->heads[slot_of(key, D_RO(b)->count)];
  while (!TOID_IS_NULL(e) && D_RO(e)->key != key)
    e = D_RO(e)->next;
  return e;
}

static void map_put(uint64_t key, uint64_t value) {
  TOID(struct map) m = map_of();
  TX_BEGIN_PARAM(pop, TX_PARAM_MUTEX, &D_RW(pool)->lock, TX_PARAM_NONE) {
    TOID(struct entry) e = find(key);
    if (!TOID_IS_NULL(e)) {
#ifndef BUG_UPDATE_UNLOGGED
      TX_ADD_FIELD(e, value);
#endif
      D_RW(e)->value = value; // MARK: update
    } else {
      if (D_RO(m)->count >= D_RO(D_RO(m)->buckets)->count)
        map_rebuild();
      TOID(struct buckets) b = D_RO(m)->buckets;
      uint64_t slot = slot_of(key, D_RO(b)->count);
      e = TX_NEW(struct entry);
      D_RW(e)->key = key;
      D_RW(e)->value = value;
      D_RW(e)->next = D_RO(b)->heads[slot];
#ifndef BUG_HEAD_UNLOGGED
      TX_ADD_FIELD(b, heads[slot]);
#endif
#ifdef BUG_LOGGED_TWICE
      TX_ADD_FIELD(b, heads[slot]); // MARK: twice
#endif
      D_RW(b)->heads[slot] = e; // MARK: head
#ifndef BUG_COUNT_UNLOGGED
      TX_ADD_FIELD(m, count);
#endif
      D_RW(m)->count++; // MARK: count
    }
  }
  TX_END
}

static uint64_t map_get(uint64_t key) {
  uint64_t value = 0;
#ifdef BUG_EMPTY_TRANSACTION
  TX_BEGIN(pop) { // MARK: lookup
    TOID(struct entry) e = find(key);
    value = TOID_IS_NULL(e) ? 0 : D_RO(e)->value;
  }
  TX_END // MARK: lookup
#else
  TOID(struct entry) e = find(key);
  value = TOID_IS_NULL(e) ? 0 : D_RO(e)->value;
#endif
  return value;
}

static void map_delete(uint64_t key) {
  TOID(struct map) m = map_of();
  TX_BEGIN_PARAM(pop, TX_PARAM_MUTEX, &D_RW(pool)->lock, TX_PARAM_NONE) {
    TOID(struct buckets) b = D_RO(m)->buckets;
    TOID(struct entry) *from = &D_RW(b)->heads[slot_of(key, D_RO(b)->count)];
    while (!TOID_IS_NULL(*from) && D_RO(*from)->key != key)
      from = &D_RW(*from)->next;
    if (!TOID_IS_NULL(*from)) {
      TOID(struct entry) e = *from;
#ifndef BUG_UNLINKED_UNLOGGED
      TX_ADD_DIRECT(from);
#endif
      *from = D_RO(e)->next; // MARK: unlinked
      TX_ADD_FIELD(m, count);
      D_RW(m)->count--;
      TX_FREE(e);
    }
  }
  TX_END
}

/* Every entry is in the bucket of its key, and the count is right. */
static void map_verify(void) {
  TOID(struct buckets) b = D_RO(map_of())->buckets;
  uint64_t count = 0;
  for (uint64_t i = 0; i < D_RO(b)->count; i++)
    for (TOID(struct entry) e = D_RO(b)->heads[i]; !TOID_IS_NULL(e); e = D_RO(e)->next, count++)
      VERIFY(slot_of(D_RO(e)->key, D_RO(b)->count) == i);
  VERIFY(count == D_RO(map_of())->count);
}

int main(int argc, char **argv) {
  objects_open(argc, argv, POBJ_LAYOUT_NAME(hashmap_tx));
  pool = POBJ_ROOT(pop, struct pool);
  int fresh = TOID_IS_NULL(D_RO(pool)->map);
  if (fresh)
    map_create();
  map_verify();
  driver_run(D_RW(pool)->progress, fresh);
  map_verify();
  pmemobj_close(pop);
  return 0;
}
