// A type that begins at a cache line: what lies on its first line is written back with any part of that line.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)

#include "raw.h"

struct __attribute__((aligned(64))) entry {
  long key;
  long value;
  long version;
  char rest[104];
  long tail;
};

void set(struct entry *entry, long key, long value) {
  entry->key = key;
  entry->value = value;
  entry->version = 1;
  _mm_clwb(&entry->version);
  _mm_sfence();
}

struct table {
  struct entry *entries;
};

void set_in(struct table *table, long value) {
  table->entries->value = value;
  table->entries->version = 2;
  _mm_clwb(table->entries);
  _mm_sfence();
}
