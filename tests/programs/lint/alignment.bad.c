// Alignment says which line something lies on, also that it is another one.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: skip (a fragment: it has no main)

#include "raw.h"

struct __attribute__((aligned(64))) entry {
  long key;
  long value;
  char rest[112];
  long tail;
};

void set(struct entry *entry, long key, long value) {
  entry->key = key;
  entry->value = value;
  entry->tail = 1; // MARK: unflushed-write
  _mm_clwb(&entry->value);
  _mm_sfence();
}

// Without a declared alignment the two may lie on different lines.
struct loose {
  long key;
  long value;
};

void set_loose(struct loose *loose) {
  loose->key = 1; // MARK: unflushed-write-2
  loose->value = 1;
  _mm_clwb(&loose->value);
  _mm_sfence();
}
