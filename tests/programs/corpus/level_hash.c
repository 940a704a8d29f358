// Level hashing: two levels of buckets, the upper one twice as large; two hash functions; a slot counts once its bit in the
// bucket's token byte is set. A resize moves the lower level into a new upper one.
//@ args: {dir}/pool
//@ cflags: -O1
//@ variant correct:
//@ variant token-not-flushed: -DBUG_TOKEN_NOT_FLUSHED
//@ bug: never-flushed at token
//@ tier: slow
//@ variant token-first: -DBUG_TOKEN_FIRST
//@ bug: torn-update|stored-after-commit at token-first
//@ variant removed-not-flushed: -DBUG_REMOVED_NOT_FLUSHED
//@ bug: never-flushed at removed
//@ tier: slow
//@ variant level-and-flag: -DBUG_LEVEL_AND_FLAG
//@ bug: torn-update|stored-after-commit at level
//@ like: DeepMC.1
//@ tier: slow
//@ variant moving-not-flushed: -DBUG_MOVING_NOT_FLUSHED
//@ bug: never-flushed at moving
//@ variant all: -DBUG_ALL
//@ tier: slow
#include "pool.h"

#ifdef BUG_ALL
#define BUG_TOKEN_NOT_FLUSHED
#define BUG_REMOVED_NOT_FLUSHED
#define BUG_MOVING_NOT_FLUSHED
#endif

#define SLOTS 3 /* in a bucket: with the tokens one cache line */
#define LEVELS 4

struct entry {
  uint64_t key, value;
};

struct bucket {
  _Alignas(LINE) uint64_t tokens; /* a bit per slot */
  struct entry entries[SLOTS];
};

/* Level n has 2^(n+1) buckets and begins at bucket 2^(n+1) - 2. */
struct table {
  _Alignas(LINE) uint64_t magic;
  _Alignas(LINE) uint64_t upper; /* number of the upper level; the lower one is the one below it */
  uint64_t moving;               /* a resize is under way */
  _Alignas(LINE) uint64_t count;
  struct bucket buckets[(2 << LEVELS) - 2];
};

#define MAGIC 0x1e7e1ull

static uint64_t mix(uint64_t key, uint64_t seed) {
  key = (key + seed) * 0x9e3779b97f4a7c15ull;
  return key ^ key >> 32;
}

static struct bucket *bucket_in(struct table *table, uint64_t level, uint64_t key, uint64_t seed) {
  return &table->buckets[(2ull << level) - 2 + mix(key, seed) % (2ull << level)];
}

static struct entry *find(struct table *table, uint64_t key) {
  for (uint64_t level = table->upper - 1; level <= table->upper + table->moving; level++) {
    for (uint64_t seed = 1; seed <= 2; seed++) {
      struct bucket *bucket = bucket_in(table, level, key, seed);
      for (int i = 0; i < SLOTS; i++)
        if (bucket->tokens >> i & 1 && bucket->entries[i].key == key)
          return &bucket->entries[i];
    }
  }
  return NULL;
}

static int put(struct bucket *bucket, uint64_t key, uint64_t value) {
  for (int i = 0; i < SLOTS; i++) {
    if (bucket->tokens >> i & 1)
      continue;
#ifdef BUG_TOKEN_FIRST
    bucket->tokens |= 1ull << i;
    bucket->entries[i].key = key; // MARK: token-first
    bucket->entries[i].value = value; // MARK: token-first
#else
    bucket->entries[i].key = key; // MARK: token
    bucket->entries[i].value = value; // MARK: token
    bucket->tokens |= 1ull << i;      // MARK: token
#endif
#ifndef BUG_TOKEN_NOT_FLUSHED
    persist(bucket, sizeof *bucket);
#endif
    return 1;
  }
  return 0;
}

static int insert_into(struct table *table, uint64_t level, uint64_t key, uint64_t value) {
  return put(bucket_in(table, level, key, 1), key, value) || put(bucket_in(table, level, key, 2), key, value);
}

/* Moves the lower level up. What was moved is removed only afterwards, so that a crash leaves it twice at worst. */
static void move_up(struct table *table) {
  uint64_t low = table->upper - 1;
  for (uint64_t b = 0; b < 2ull << low; b++) {
    struct bucket *bucket = &table->buckets[(2ull << low) - 2 + b];
    for (int i = 0; i < SLOTS; i++) {
      if (!(bucket->tokens >> i & 1))
        continue;
      VERIFY(insert_into(table, table->upper + 1, bucket->entries[i].key, bucket->entries[i].value));
      bucket->tokens &= ~(1ull << i); // MARK: removed
#ifndef BUG_REMOVED_NOT_FLUSHED
      persist(&bucket->tokens, sizeof bucket->tokens);
#endif
    }
  }
#ifdef BUG_LEVEL_AND_FLAG
  table->moving = 0; // MARK: level
  persist(&table->moving, sizeof table->moving);
  table->upper++; // MARK: level
  persist(&table->upper, sizeof table->upper);
#else
  /* One cache line: the first of the two stores never survives without the second being pending only. */
  table->upper++;
  table->moving = 0;
  persist(&table->upper, 2 * sizeof table->upper);
#endif
}

static void resize(struct table *table) {
  VERIFY(table->upper + 1 < LEVELS);
  table->moving = 1; // MARK: moving
#ifndef BUG_MOVING_NOT_FLUSHED
  persist(&table->moving, sizeof table->moving);
#endif
  move_up(table);
}

static void insert(struct table *table, uint64_t key, uint64_t value) {
  while (!insert_into(table, table->upper, key, value) && !insert_into(table, table->upper - 1, key, value))
    resize(table);
}

static void recover(struct table *table) {
  if (table->moving) {
    /* Entries that were copied but not removed. */
    for (uint64_t b = 0; b < 2ull << (table->upper - 1); b++) {
      struct bucket *bucket = &table->buckets[(2ull << (table->upper - 1)) - 2 + b];
      for (int i = 0; i < SLOTS; i++) {
        if (!(bucket->tokens >> i & 1))
          continue;
        for (uint64_t seed = 1; seed <= 2; seed++) {
          struct bucket *above = bucket_in(table, table->upper + 1, bucket->entries[i].key, seed);
          for (int j = 0; j < SLOTS; j++) {
            if (above->tokens >> j & 1 && above->entries[j].key == bucket->entries[i].key) {
              bucket->tokens &= ~(1ull << i);
              persist(&bucket->tokens, sizeof bucket->tokens);
            }
          }
        }
      }
    }
    move_up(table);
  }
}

#define KEYS 20

int main(int argc, char **argv) {
  struct table *table = pool_map(argc > 1 ? argv[1] : "/mnt/pmem/table", sizeof *table);
  if (table->magic != MAGIC) {
    table->upper = 1;
    persist(&table->upper, sizeof table->upper);
    table->magic = MAGIC;
    persist(&table->magic, sizeof table->magic);
  }
  recover(table);
  uint64_t done = table->count;
  for (uint64_t key = 1; key <= done; key++)
    VERIFY(find(table, key) && find(table, key)->value == key + 1000);
  for (uint64_t key = done + 1; key <= KEYS; key++) {
    if (!find(table, key))
      insert(table, key, key + 1000);
    table->count = key;
    persist(&table->count, sizeof table->count);
  }
  for (uint64_t key = 1; key <= KEYS; key++)
    VERIFY(find(table, key) && find(table, key)->value == key + 1000);
  return 0;
}
