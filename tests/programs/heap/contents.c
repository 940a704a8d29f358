// Fresh memory of the heap is not zero, freed memory is not what it was, and a block is given back once.
//@ flags check: --pm-heap
//@ lint: skip (lint has no --pm-heap)
//@ prove: skip (prove has no --pm-heap)
//@ variant zero-lost: -DZERO
//@ check: recovery-fails at zero
//@ variant zero-lost-in-zeros: -DZERO -DZEROS
//@ flags check: --fill zero
//@ check: clean
//@ variant calloc: -DCALLOC
//@ check: clean
//@ variant freed: -DFREED
//@ check: recovery-fails-nothing-lost at recovery-fails
//@ check: recovery-fails at recovery-fails
//@ variant twice: -DTWICE
//@ check: fails-without-crash at again
#include <crashproof.h>
#include <stdlib.h>
#include <string.h>

struct node {
  struct node *next;
  long value;
};

PERSISTENT struct node *head;

int main(void) {
  if (crashproof_crashes()) {
#ifndef TWICE
    for (struct node *n = head; n; n = n->next)
      crashproof_assert(n->value == 7);
#endif
    return 0;
  }
#ifdef CALLOC
  struct node *n = calloc(1, sizeof *n);
  crashproof_assert(n->next == NULL);
  n->value = 7;
  crashproof_persist(n, sizeof *n);
#else
  struct node *n = aligned_alloc(64, 128);
  n->value = 7;
  crashproof_persist(n, sizeof *n);
  n->next = NULL; // MARK: zero
#ifndef ZERO
  crashproof_persist(n, sizeof *n);
#endif
#endif
  head = n;
  crashproof_persist(&head, sizeof head);
#ifdef FREED
  // Others still find it.
  free(n); // MARK: recovery-fails
  n = NULL;
  crashproof_persist(&head, sizeof head); // MARK: recovery-fails-nothing-lost
#endif
#ifdef TWICE
  free(n);
  free(n); // MARK: again
#endif
  return 0;
}
