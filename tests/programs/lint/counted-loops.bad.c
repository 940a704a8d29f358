// What comes after a loop to a constant is looked at, whatever the loop did.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: skip (a fragment: it has no main)

#include "raw.h"

struct node {
  long keys[6];
  long pad[8];
  long count;
};

void clear(struct node *node) {
  for (int i = 2; i < 6; i++)
    node->keys[i] = 0;
  persist(node->keys, sizeof(node->keys));
  node->count = 2; // MARK: unflushed-write
}

void shift(struct node *node) {
  int i = 5;
  do {
    if (node->keys[i] < 0)
      return;
    node->keys[i] = node->keys[i - 1];
    persist(&node->keys[i], sizeof(long));
  } while (--i > 0);
  node->count = 6; // MARK: unflushed-write-2
}
