#include "store.h"

PERSISTENT struct entry entries[4];

void push(struct entry *entry, long value) {
  entry->value = value;
  entry->next = root;
  root = entry;
}
