// A loop to a constant is walked to its end: every line that is written back was stored to.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)

#include "raw.h"

struct table {
  long slots[48];
  long count;
};

void clear(struct table *table) {
  for (int i = 0; i < 48; i++)
    table->slots[i] = 0;
  persist(table->slots, sizeof(table->slots));
  table->count = 0;
  persist(&table->count, sizeof(table->count));
}

struct large {
  long slots[512];
};

// Too long to be walked to its end: nothing is said of the lines that were not reached.
void clear_large(struct large *large) {
  for (int i = 0; i < 512; i++)
    large->slots[i] = 0;
  persist(large->slots, sizeof(large->slots));
}
