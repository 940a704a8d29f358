// Something that is there is written back, and nobody stored to it.
//@ check: skip (a fragment: it has no main)
//@ lint: flush-unmodified at flush-unmodified
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct node {
  uint64_t value;
  struct node *next;
};

PERSISTENT struct {
  struct node *first;
  char pad[56];
  uint64_t count;
} list;

void count(void) {
  list.count++;
  persist(&list.first, sizeof list.first); // MARK: flush-unmodified
  persist(&list.count, sizeof list.count);
}
