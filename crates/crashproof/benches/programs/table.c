// A hash table with an allocator of its own, as storage engines have them: a bit in the allocation map, the entry,
// the bucket that commits it, the number of entries. After a crash the table is walked as a whole: every entry is in
// its bucket and allocated, no chain is a circle, and the number is right or one behind.
#include <crashproof.h>
#include <stdint.h>
#include <stdlib.h>

#define BUCKETS 16
#define ENTRIES 4096

struct entry {
  uint64_t key, value;
  uint32_t next; // number of the next entry, and one
} __attribute__((aligned(64)));

struct table {
  uint32_t bucket[BUCKETS] __attribute__((aligned(64)));
  uint64_t count __attribute__((aligned(64)));
  uint64_t map[ENTRIES / 64] __attribute__((aligned(64)));
  struct entry entry[ENTRIES];
};

static uint64_t hash(uint64_t key) {
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdull;
  return key ^ key >> 33;
}

static int is_allocated(const struct table *table, uint32_t number) {
  return table->map[number / 64] >> number % 64 & 1;
}

static uint32_t allocate(struct table *table) {
  for (uint32_t number = 0; number < ENTRIES; number++) {
    if (is_allocated(table, number))
      continue;
    table->map[number / 64] |= 1ull << number % 64;
    crashproof_persist(&table->map[number / 64], sizeof table->map[0]);
    return number;
  }
  abort();
}

static void put(struct table *table, uint64_t key, uint64_t value) {
  uint32_t number = allocate(table);
  struct entry *entry = &table->entry[number];
  uint32_t *bucket = &table->bucket[hash(key) % BUCKETS];
  entry->key = key;
  entry->value = value;
  entry->next = *bucket;
  crashproof_persist(entry, sizeof *entry);
  *bucket = number + 1;
  crashproof_persist(bucket, sizeof *bucket);
  table->count++;
  crashproof_persist(&table->count, sizeof table->count);
}

static uint64_t verify(const struct table *table) {
  uint64_t found = 0;
  for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
    for (uint32_t next = table->bucket[bucket]; next; next = table->entry[next - 1].next) {
      crashproof_assert(next <= ENTRIES);
      crashproof_assert(is_allocated(table, next - 1));
      const struct entry *entry = &table->entry[next - 1];
      crashproof_assert(hash(entry->key) % BUCKETS == bucket);
      crashproof_assert(entry->value == entry->key * 3);
      crashproof_assert(++found <= ENTRIES);
    }
  }
  return found;
}

static void recover(struct table *table) {
  uint64_t found = verify(table);
  if (table->count != found) {
    crashproof_assert(table->count + 1 == found);
    table->count = found;
    crashproof_persist(&table->count, sizeof table->count);
  }
}

int main(int argc, char **argv) {
  struct table *table = crashproof_root(sizeof *table);
  if (crashproof_crashes()) {
    recover(table);
    return 0;
  }
  long count = argc > 1 ? atol(argv[1]) : 100;
  for (long key = 1; key <= count; key++)
    put(table, (uint64_t)key, (uint64_t)key * 3);
  return 0;
}
