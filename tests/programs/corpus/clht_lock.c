// A hash table with buckets of one cache line and a lock in each, as P-CLHT has it: three entries per bucket, overflow
// buckets behind it, a resize that copies into a table twice as large and switches with one store. Two threads.
//@ args: {dir}/pool
//@ cflags: -O1
//@ flags check: --schedules 1
//@ variant correct:
//@ variant table-not-flushed: -DBUG_TABLE_NOT_FLUSHED
//@ bug: never-flushed at table-fields
//@ like: Jaaru 13.16, PSan.30
//@ variant handle-not-flushed: -DBUG_HANDLE_NOT_FLUSHED
//@ bug: never-flushed at handle
//@ like: Jaaru 13.15
//@ tier: slow
//@ variant array-not-flushed: -DBUG_ARRAY_NOT_FLUSHED
//@ bug: never-flushed at array
//@ like: Jaaru 13.17, PSan.31
//@ tier: slow
//@ variant versions-not-flushed: -DBUG_VERSIONS_NOT_FLUSHED
//@ bug: never-flushed at versions
//@ like: PSan.29
//@ tier: slow
//@ variant entry-not-flushed: -DBUG_ENTRY_NOT_FLUSHED
//@ bug: never-flushed at entry
//@ tier: slow
//@ variant key-before-value: -DBUG_KEY_BEFORE_VALUE
//@ bug: torn-update|stored-after-commit at value-late
//@ variant update-not-flushed: -DBUG_UPDATE_NOT_FLUSHED
//@ bug: never-flushed at update
//@ tier: slow
//@ variant overflow-not-flushed: -DBUG_OVERFLOW_NOT_FLUSHED
//@ bug: never-flushed at overflow
//@ tier: slow
//@ variant overflow-flushed-late: -DBUG_OVERFLOW_FLUSHED_LATE
//@ bug: flushed-too-late|wrong-order at overflow
//@ tier: slow
//@ variant link-flushes-target: -DBUG_LINK_FLUSHES_TARGET
//@ bug: wrong-address-flushed|never-flushed at link
//@ tier: slow
//@ variant delete-not-flushed: -DBUG_DELETE_NOT_FLUSHED
//@ bug: never-flushed at delete
//@ tier: slow
//@ variant copy-partly-flushed: -DBUG_COPY_PARTLY_FLUSHED
//@ bug: flush-covers-too-little at copied
//@ tier: slow
//@ variant switch-not-flushed: -DBUG_SWITCH_NOT_FLUSHED
//@ bug: never-flushed at switch
//@ tier: slow
//@ variant reused-before-switch: -DBUG_REUSED_BEFORE_SWITCH
//@ bug: recovery-wrong|stored-after-commit|wrong-order at reused
//@ tier: slow
//@ variant locks-survive: -DBUG_LOCKS_SURVIVE
//@ bug: recovery-wrong|recovery-trusts-volatile-state at lock
//@ like: PSan.1, PSan.2
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#define THREADS 2
#define KEYS 6
#include "driver.h"

#ifdef BUG_ALL
#define BUG_TABLE_NOT_FLUSHED
#define BUG_ENTRY_NOT_FLUSHED
#define BUG_UPDATE_NOT_FLUSHED
#define BUG_OVERFLOW_NOT_FLUSHED
#define BUG_DELETE_NOT_FLUSHED
#define BUG_SWITCH_NOT_FLUSHED
#define BUG_LOCKS_SURVIVE
#endif

#define ENTRIES 3
#define POOL_BUCKETS 256

struct bucket {
  uint32_t lock;
  uint32_t unused;
  uint64_t keys[ENTRIES]; /* 0: free; stored after the value */
  uint64_t values[ENTRIES];
  uint64_t next; /* number of the overflow bucket, 0: none */
} __attribute__((aligned(LINE)));

/* A table: where its buckets begin in the pool, and how many they are. */
struct table {
  uint64_t first, buckets;
  uint64_t version;
} __attribute__((aligned(LINE)));

struct pool {
  uint64_t magic __attribute__((aligned(LINE)));
  struct table *current __attribute__((aligned(LINE))); /* the handle: which table counts */
  uint64_t *versions __attribute__((aligned(LINE)));    /* of each thread, for reclamation */
  uint64_t used __attribute__((aligned(LINE)));         /* buckets handed out */
  struct table tables[6];
  uint64_t version_slots[8] __attribute__((aligned(LINE)));
  struct progress progress[THREADS] __attribute__((aligned(LINE)));
  struct bucket buckets[POOL_BUCKETS];
};

#define MAGIC 0x6c687463ull

static struct pool *pool;
static pthread_mutex_t resizing = PTHREAD_MUTEX_INITIALIZER; /* also guards `used` */

/* Recovery clears the locks, so that it does not matter which of them survive. */
static void bucket_lock(struct bucket *b) {
  crashproof_tolerate_begin();
  while (__atomic_exchange_n(&b->lock, 1, __ATOMIC_ACQUIRE)) // MARK: lock
    ;
  crashproof_tolerate_end();
}

static void bucket_unlock(struct bucket *b) {
  crashproof_tolerate_begin();
  __atomic_store_n(&b->lock, 0, __ATOMIC_RELEASE); // MARK: lock
  crashproof_tolerate_end();
}

/* Hands out buckets that are zero, durably. */
static uint64_t buckets_new(uint64_t count) {
  uint64_t first = pool->used;
  if (first + count > POOL_BUCKETS)
    exit(3);
  memset(&pool->buckets[first], 0, count * sizeof(struct bucket)); // MARK: array
#ifndef BUG_ARRAY_NOT_FLUSHED
  persist(&pool->buckets[first], count * sizeof(struct bucket));
#endif
  pool->used = first + count;
  persist(&pool->used, sizeof pool->used);
  return first;
}

static struct table *table_new(uint64_t buckets, uint64_t version) {
  struct table *t = &pool->tables[version % 6];
  t->first = buckets_new(buckets); // MARK: table-fields
  t->buckets = buckets;            // MARK: table-fields
  t->version = version;            // MARK: table-fields
#ifndef BUG_TABLE_NOT_FLUSHED
  persist(t, sizeof *t);
#endif
  return t;
}

static void pool_create(void) {
  pool->used = 1; /* number 0 is no bucket */
  persist(&pool->used, sizeof pool->used);
  pool->versions = pool->version_slots; // MARK: versions
#ifndef BUG_VERSIONS_NOT_FLUSHED
  persist(&pool->versions, sizeof pool->versions);
#endif
  pool->current = table_new(2, 0); // MARK: handle
#ifndef BUG_HANDLE_NOT_FLUSHED
  persist(&pool->current, sizeof pool->current);
#endif
  pool->magic = MAGIC;
  persist(&pool->magic, sizeof pool->magic);
}

static uint64_t hash(uint64_t key) { return (key * 0x9e3779b97f4a7c15ull) >> 40; }

static struct bucket *bucket_of(const struct table *t, uint64_t key) {
  return &pool->buckets[t->first + hash(key) % t->buckets];
}

static struct bucket *next_of(const struct bucket *b) { return b->next ? &pool->buckets[b->next] : NULL; }

static void entry_set(struct bucket *b, int i, uint64_t key, uint64_t value) {
#ifdef BUG_KEY_BEFORE_VALUE
  b->keys[i] = key;
  __asm__ volatile("" ::: "memory");
  b->values[i] = value; // MARK: value-late
#else
  b->values[i] = value; // MARK: entry
  __asm__ volatile("" ::: "memory");
  b->keys[i] = key; // MARK: entry
#endif
}

/* Puts a new entry into a chain whose head is locked; 0 if an overflow bucket was needed, which asks for a resize. */
static int chain_insert(struct bucket *b, uint64_t key, uint64_t value, int durable) {
  for (;; b = next_of(b)) {
    for (int i = 0; i < ENTRIES; i++) {
      if (b->keys[i])
        continue;
      entry_set(b, i, key, value);
#ifndef BUG_ENTRY_NOT_FLUSHED
      if (durable)
        persist(b, sizeof *b);
#endif
      return 1;
    }
    if (!b->next)
      break;
  }
  pthread_mutex_lock(&resizing);
  uint64_t number = buckets_new(1);
  pthread_mutex_unlock(&resizing);
  struct bucket *fresh = &pool->buckets[number];
  fresh->values[0] = value; // MARK: overflow
  fresh->keys[0] = key;     // MARK: overflow
#if !defined BUG_OVERFLOW_NOT_FLUSHED && !defined BUG_OVERFLOW_FLUSHED_LATE
  persist(fresh, sizeof *fresh);
#endif
  b->next = number; // MARK: link
#ifdef BUG_LINK_FLUSHES_TARGET
  persist(next_of(b), sizeof *b);
#else
  persist(&b->next, sizeof b->next);
#endif
#ifdef BUG_OVERFLOW_FLUSHED_LATE
  persist(fresh, sizeof *fresh);
#endif
  return 0;
}

static uint64_t *chain_find(struct bucket *b, uint64_t key) {
  for (; b; b = next_of(b))
    for (int i = 0; i < ENTRIES; i++)
      if (b->keys[i] == key)
        return &b->values[i];
  return NULL;
}

/* Copies all entries, not durably; 0 if a bucket of the new table is too small. */
static int table_copy(const struct table *old, struct table *wide) {
  for (uint64_t i = 0; i < old->buckets; i++) {
    for (struct bucket *b = &pool->buckets[old->first + i]; b; b = next_of(b)) {
      for (int e = 0; e < ENTRIES; e++) {
        if (!b->keys[e])
          continue;
        struct bucket *to = bucket_of(wide, b->keys[e]);
        int at = 0;
        while (at < ENTRIES && to->keys[at])
          at++;
        if (at == ENTRIES)
          return 0;
        to->values[at] = b->values[e]; // MARK: copied
        to->keys[at] = b->keys[e];     // MARK: copied
      }
    }
  }
  return 1;
}

/* Copies everything into a table twice as large while all buckets are locked. */
static void resize(struct table *old) {
  pthread_mutex_lock(&resizing);
  if (pool->current != old) {
    pthread_mutex_unlock(&resizing);
    return;
  }
  for (uint64_t i = 0; i < old->buckets; i++)
    bucket_lock(&pool->buckets[old->first + i]);
  struct table *wide;
  uint64_t buckets = old->buckets * 2;
  do {
    wide = table_new(buckets, old->version + 1);
    buckets *= 2;
  } while (!table_copy(old, wide));
#ifdef BUG_COPY_PARTLY_FLUSHED
  persist(&pool->buckets[wide->first], sizeof(struct bucket));
#else
  persist(&pool->buckets[wide->first], wide->buckets * sizeof(struct bucket));
#endif
#ifdef BUG_REUSED_BEFORE_SWITCH
  memset(&pool->buckets[old->first], 0, old->buckets * sizeof(struct bucket)); // MARK: reused
  persist(&pool->buckets[old->first], old->buckets * sizeof(struct bucket));
#endif
  pool->current = wide; // MARK: switch
#ifndef BUG_SWITCH_NOT_FLUSHED
  persist(&pool->current, sizeof pool->current);
#endif
  for (uint64_t i = 0; i < old->buckets; i++)
    bucket_unlock(&pool->buckets[old->first + i]);
  pthread_mutex_unlock(&resizing);
}

/* Locks the bucket of a key in the table that counts. */
static struct bucket *lock_bucket_of(uint64_t key, struct table **of) {
  for (;;) {
    struct table *t = pool->current;
    struct bucket *b = bucket_of(t, key);
    bucket_lock(b);
    if (pool->current == t) {
      *of = t;
      return b;
    }
    bucket_unlock(b);
  }
}

static void map_put(uint64_t key, uint64_t value) {
  struct table *t;
  struct bucket *b = lock_bucket_of(key, &t);
  uint64_t *old = chain_find(b, key);
  int roomy = 1;
  if (old) {
    *old = value; // MARK: update
#ifndef BUG_UPDATE_NOT_FLUSHED
    persist(old, sizeof *old);
#endif
  } else {
    roomy = chain_insert(b, key, value, 1);
  }
  bucket_unlock(b);
  if (!roomy)
    resize(t);
}

static uint64_t map_get(uint64_t key) {
  uint64_t *value = chain_find(bucket_of(pool->current, key), key);
  return value ? *value : 0;
}

static void map_delete(uint64_t key) {
  struct table *t;
  struct bucket *head = lock_bucket_of(key, &t);
  for (struct bucket *b = head; b; b = next_of(b)) {
    for (int i = 0; i < ENTRIES; i++) {
      if (b->keys[i] == key) {
        b->keys[i] = 0; // MARK: delete
#ifndef BUG_DELETE_NOT_FLUSHED
        persist(&b->keys[i], sizeof b->keys[i]);
#endif
      }
    }
  }
  bucket_unlock(head);
}

/* Locks mean nothing after a crash. */
static void recover_locks(void) {
#ifndef BUG_LOCKS_SURVIVE
  for (uint64_t i = 0; i < pool->used; i++)
    pool->buckets[i].lock = 0;
#endif
  VERIFY(pool->versions == pool->version_slots);
}

int main(int argc, char **argv) {
  pool = pool_map(argc > 1 ? argv[1] : "/mnt/pmem/pool", sizeof *pool);
  int fresh = pool->magic != MAGIC;
  if (fresh)
    pool_create();
  else
    recover_locks();
  driver_run(pool->progress, fresh);
  return 0;
}
