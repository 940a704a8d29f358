// A block of the heap begins anywhere in a cache line: a flush of its first line is not one of all its lines.
//@ flags check: --pm-heap
//@ lint: skip (lint has no --pm-heap)
//@ prove: skip (prove has no --pm-heap)
//@ variant plain:
//@ check: recovery-fails at last
//@ variant good: -DGOOD
//@ check: clean
#include <crashproof.h>
#include <stdlib.h>

struct node {
  long first;
  char middle[40];
  long last;
};

PERSISTENT struct node *head;

int main(void) {
  if (crashproof_crashes()) {
    crashproof_assert(!head || head->last == 2);
    return 0;
  }
  struct node *n = malloc(sizeof *n);
  n->first = 1;
  n->last = 2; // MARK: last
#ifdef GOOD
  crashproof_persist(n, sizeof *n);
#else
  crashproof_persist(&n->first, sizeof n->first);
#endif
  head = n;
  crashproof_persist(&head, sizeof head);
  return 0;
}
