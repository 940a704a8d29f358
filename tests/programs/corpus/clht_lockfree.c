// The lock-free relative of the bucket hash: three entries in a cache line, and a snapshot word that says which of them are
// free, being inserted or valid. Entries change by compare-and-swap of the snapshot; whoever reads an entry makes sure that
// it is durable before anything is built on it. Two threads.
//@ args: {dir}/pool
//@ cflags: -O1
//@ flags check: --schedules 1
//@ variant correct:
//@ flags check: --schedules 4
//@ variant entry-not-flushed: -DBUG_ENTRY_NOT_FLUSHED
//@ bug: never-flushed at commit
//@ tier: slow
//@ variant commit-not-fenced: -DBUG_COMMIT_NOT_FENCED
//@ bug: flushed-not-fenced at commit
//@ variant value-after-commit: -DBUG_VALUE_AFTER_COMMIT
//@ bug: torn-update|stored-after-commit at late
//@ variant delete-not-flushed: -DBUG_DELETE_NOT_FLUSHED
//@ bug: never-flushed at delete
//@ tier: slow
//@ variant index-not-flushed: -DBUG_INDEX_NOT_FLUSHED
//@ bug: never-flushed at index
//@ tier: slow
//@ variant payload-not-flushed: -DBUG_PAYLOAD_NOT_FLUSHED
//@ bug: never-flushed at payload
//@ tier: slow
//@ variant payload-flushed-early: -DBUG_PAYLOAD_FLUSHED_EARLY
//@ bug: never-flushed at payload-late
//@ tier: slow
//@ variant payload-first-line: -DBUG_PAYLOAD_FIRST_LINE
//@ bug: flush-covers-too-little at payload
//@ tier: slow
//@ variant insertion-survives: -DBUG_INSERTION_SURVIVES
//@ bug: recovery-wrong|stored-after-commit|recovery-trusts-volatile-state at claim
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#define THREADS 2
#define KEYS 5
#include "driver.h"

#include <stdatomic.h>

#ifdef BUG_ALL
#define BUG_ENTRY_NOT_FLUSHED
#define BUG_DELETE_NOT_FLUSHED
#define BUG_PAYLOAD_NOT_FLUSHED
#endif

#define ENTRIES 3
#define BUCKETS 4
#define PAYLOADS 32

enum state { FREE, INSERTING, VALID };

/* A version, so that a snapshot never comes back, and two bits for each entry. */
static uint64_t state_of(uint64_t snapshot, int i) { return snapshot >> (2 * i) & 3; }

static uint64_t with_state(uint64_t snapshot, int i, enum state state) {
  return ((snapshot & ~(3ull << (2 * i))) | (uint64_t)state << (2 * i)) + (1ull << 32);
}

struct bucket {
  _Atomic uint64_t snapshot;
  uint64_t keys[ENTRIES];
  _Atomic uint64_t payloads[ENTRIES]; /* numbers */
} __attribute__((aligned(LINE)));

/* Values are kept apart, in blocks that span two lines. */
struct payload {
  uint64_t value;
  char text[72];
  uint64_t again;
} __attribute__((aligned(LINE)));

struct table {
  uint64_t magic __attribute__((aligned(LINE)));
  _Atomic uint64_t used __attribute__((aligned(LINE)));
  struct progress progress[THREADS] __attribute__((aligned(LINE)));
  struct bucket buckets[BUCKETS];
  struct payload payloads[PAYLOADS];
};

#define MAGIC 0x66656572ull

static struct table *table;

static struct bucket *bucket_of(uint64_t key) { return &table->buckets[key * 0x9e3779b97f4a7c15ull >> 62]; }

static uint64_t payload_new(uint64_t value) {
  uint64_t number = atomic_fetch_add(&table->used, 1); // MARK: index
#ifndef BUG_INDEX_NOT_FLUSHED
  persist(&table->used, sizeof table->used);
#endif
  if (number >= PAYLOADS)
    exit(3);
  struct payload *p = &table->payloads[number];
#ifdef BUG_PAYLOAD_FLUSHED_EARLY
  persist(p, sizeof *p);
  p->value = value; // MARK: payload-late
  p->again = value; // MARK: payload-late
#else
  p->value = value; // MARK: payload
  p->again = value; // MARK: payload
#ifdef BUG_PAYLOAD_FIRST_LINE
  persist(p, sizeof p->value);
#elif !defined BUG_PAYLOAD_NOT_FLUSHED
  persist(p, sizeof *p);
#endif
#endif
  return number;
}

/* The entry of a key that is valid in a snapshot, or -1. */
static int find(const struct bucket *b, uint64_t snapshot, uint64_t key) {
  for (int i = 0; i < ENTRIES; i++)
    if (state_of(snapshot, i) == VALID && b->keys[i] == key)
      return i;
  return -1;
}

static void map_put(uint64_t key, uint64_t value) {
  struct bucket *b = bucket_of(key);
  uint64_t payload = payload_new(value);
  for (;;) {
    uint64_t snapshot = atomic_load(&b->snapshot);
    int at = find(b, snapshot, key);
    if (at >= 0) {
      atomic_store_explicit(&b->payloads[at], payload, memory_order_release); // MARK: commit
#ifdef BUG_COMMIT_NOT_FENCED
      flush(b, sizeof *b);
#elif !defined BUG_ENTRY_NOT_FLUSHED
      persist(b, sizeof *b);
#endif
      return;
    }
    int free = 0;
    while (free < ENTRIES && state_of(snapshot, free) != FREE)
      free++;
    if (free == ENTRIES)
      continue; /* somebody is about to give one up */
    uint64_t claimed = with_state(snapshot, free, INSERTING);
    crashproof_tolerate_begin();
    int mine = atomic_compare_exchange_strong(&b->snapshot, &snapshot, claimed); // MARK: claim
    crashproof_tolerate_end();
    if (!mine)
      continue;
    b->keys[free] = key; // MARK: commit
#ifndef BUG_VALUE_AFTER_COMMIT
    atomic_store_explicit(&b->payloads[free], payload, memory_order_relaxed); // MARK: commit
#endif
    uint64_t expected = atomic_load(&b->snapshot);
    while (!atomic_compare_exchange_strong(&b->snapshot, &expected, with_state(expected, free, VALID))) // MARK: commit
      ;
#ifdef BUG_VALUE_AFTER_COMMIT
    atomic_store_explicit(&b->payloads[free], payload, memory_order_relaxed); // MARK: late
#endif
#ifdef BUG_COMMIT_NOT_FENCED
    flush(b, sizeof *b);
#elif !defined BUG_ENTRY_NOT_FLUSHED
    persist(b, sizeof *b);
#endif
    return;
  }
}

static uint64_t map_get(uint64_t key) {
  struct bucket *b = bucket_of(key);
  int at = find(b, atomic_load(&b->snapshot), key);
  if (at < 0)
    return 0;
  uint64_t number = atomic_load(&b->payloads[at]);
  VERIFY(number < PAYLOADS && number < atomic_load(&table->used));
  const struct payload *p = &table->payloads[number % PAYLOADS];
  VERIFY(p->value == p->again);
  return p->value;
}

static void map_delete(uint64_t key) {
  struct bucket *b = bucket_of(key);
  for (;;) {
    uint64_t snapshot = atomic_load(&b->snapshot);
    int at = find(b, snapshot, key);
    if (at < 0)
      return;
    if (atomic_compare_exchange_strong(&b->snapshot, &snapshot, with_state(snapshot, at, FREE))) // MARK: delete
      break;
  }
#ifndef BUG_DELETE_NOT_FLUSHED
  persist(&b->snapshot, sizeof b->snapshot);
#endif
}

/* Insertions that a crash interrupted never happened. */
static void recover_snapshots(void) {
#ifndef BUG_INSERTION_SURVIVES
  for (int b = 0; b < BUCKETS; b++) {
    uint64_t snapshot = atomic_load(&table->buckets[b].snapshot);
    for (int i = 0; i < ENTRIES; i++)
      if (state_of(snapshot, i) == INSERTING)
        snapshot = with_state(snapshot, i, FREE);
    atomic_store_explicit(&table->buckets[b].snapshot, snapshot, memory_order_relaxed);
    persist(&table->buckets[b].snapshot, sizeof snapshot);
  }
#endif
}

int main(int argc, char **argv) {
  table = pool_map(argc > 1 ? argv[1] : "/mnt/pmem/table", sizeof *table);
  int fresh = table->magic != MAGIC;
  if (fresh) {
    table->magic = MAGIC;
    persist(&table->magic, sizeof table->magic);
  } else {
    recover_snapshots();
  }
  driver_run(table->progress, fresh);
  return 0;
}
