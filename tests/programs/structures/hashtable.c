// A hash table with chains: entries are complete before they are linked, values are replaced in place by a pointer
// to a new one.
//@ variant right: -DBUG=0
//@ check: clean
//@ variant bug-1: -DBUG=1
//@ check: fails
//@ variant bug-2: -DBUG=2
//@ check: fails
//@ variant bug-3: -DBUG=3
//@ check: fails

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
  value->length = (long)strlen(text);
  strcpy(value->text, text);
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
  entry->key = key;
  entry->value = value;
  entry->next = table->bucket[key % BUCKETS];
#if BUG != 2
  crashproof_persist(entry, sizeof *entry);
#endif
  table->bucket[key % BUCKETS] = entry;
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
      crashproof_assert(entry->value->length == (long)strlen(entry->value->text));
    }
  crashproof_assert(found >= table->count);
  if (crashproof_crashes())
    return 0;
  put(table, 1, "one");
  put(table, 5, "five");
  put(table, 1, "uno");
  return 0;
}
