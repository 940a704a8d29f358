// Whether a block of 48 bytes straddles two cache lines depends on where it begins.
//@ flags check: --pm-heap
//@ lint: skip (lint has no --pm-heap)
//@ prove: skip (prove has no --pm-heap)
//@ variant first:
//@ check: clean
//@ variant all: -DALL
//@ flags check: --layouts 4
//@ check: recovery-fails at last
#include <crashproof.h>
#include <stdlib.h>

// The first block begins at byte 32 of a cache line, so that 32 bytes fit.
struct node {
  long first;
  char middle[16];
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
  crashproof_persist(&n->first, sizeof n->first);
  head = n;
  crashproof_persist(&head, sizeof head);
  return 0;
}
