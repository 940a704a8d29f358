// A hash table with chains: entries are complete before they are linked, values are replaced in place by a pointer
// to a new one.
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at recovery-fails
//@ prove: refuted at claim-violated
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails at recovery-fails-3
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at recovery-fails-3
//@ lint: unflushed-write at recovery-fails-2
//@ prove: refuted at claim-violated-2
//@ variant bug-3: -DBUG=3
//@ check: recovery-fails at recovery-fails-4
//@ lint: unflushed-write at recovery-fails-4
//@ prove: refuted at claim-violated-2

#include <crashproof.h>
#include <string.h>

#define BUCKETS 4

struct value {
  long length;
  char text[40];
};
struct entry {
  long key;
  struct value *value;
  struct entry *next;
};
struct table {
  struct entry *bucket[BUCKETS];
  long count __attribute__((aligned(64)));
};

static struct value *new_value(const char *text) {
  struct value *value = crashproof_alloc(sizeof *value);
  value->length = (long)strlen(text); // MARK: unflushed-write
  strcpy(value->text, text); // MARK: recovery-fails
#if BUG != 1
  crashproof_persist(value, sizeof *value);
#endif
  return value;
}

static struct entry *find(struct table *table, long key) {
  struct entry *entry = table->bucket[key % BUCKETS];
  while (entry && entry->key != key)
    entry = entry->next;
  return entry;
}

static void put(struct table *table, long key, const char *text) {
  struct value *value = new_value(text);
  struct entry *entry = find(table, key);
  if (entry) {
    entry->value = value;
    crashproof_persist(&entry->value, sizeof entry->value);
    return;
  }
  entry = crashproof_alloc(sizeof *entry);
  entry->key = key; // MARK: unflushed-write-2
  entry->value = value; // MARK: recovery-fails-3
  entry->next = table->bucket[key % BUCKETS]; // MARK: recovery-fails-2
#if BUG != 2
  crashproof_persist(entry, sizeof *entry);
#endif
  table->bucket[key % BUCKETS] = entry; // MARK: recovery-fails-4
#if BUG != 3
  crashproof_persist(&table->bucket[key % BUCKETS], sizeof entry);
#endif
  table->count = table->count + 1;
  crashproof_persist(&table->count, sizeof table->count);
}

int main(void) {
  struct table *table = crashproof_root(sizeof *table);
  long found = 0;
  for (int i = 0; i < BUCKETS; i++)
    for (struct entry *entry = table->bucket[i]; entry; entry = entry->next, found++) {
      crashproof_assert(entry->key % BUCKETS == i && entry->value);
      crashproof_assert(entry->value->length == (long)strlen(entry->value->text)); // MARK: claim-violated
    }
  crashproof_assert(found >= table->count); // MARK: claim-violated-2
  if (crashproof_crashes())
    return 0;
  put(table, 1, "one");
  put(table, 5, "five");
  put(table, 1, "uno");
  return 0;
}
