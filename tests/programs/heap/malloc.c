// With --pm-heap everything that the program allocates is persistent.
//@ flags check: --pm-heap
//@ lint: skip (lint has no --pm-heap)
//@ prove: skip (prove has no --pm-heap)
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 4 crash points, 3 recoveries
//@ variant plain:
//@ check: recovery-fails at LOST
//@ check: missing-flush at missing-flush-2
//@ figures: 4 crash points, 6 recoveries
//@ variant good-realloc: -DGOOD -DREALLOC
//@ check: clean
//@ figures: 6 crash points, 3 recoveries
//@ variant realloc: -DREALLOC
//@ check: recovery-fails at MOVED
//@ figures: 6 crash points, 4 recoveries
#include <crashproof.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

struct node {
  struct node *next;
  long value;
  char *name;
};

PERSISTENT struct node *head;

static void push(long value) {
  struct node *n = calloc(1, sizeof *n);
  crashproof_assert(((uintptr_t)n >> 44) == 1 && n->next == NULL);
  n->next = head;
  n->value = value;
  n->name = malloc(100);
  strcpy(n->name, "abc"); // MARK: LOST
#ifdef GOOD
  crashproof_persist(n->name, 100);
#endif
#ifdef REALLOC
  crashproof_persist(n->name, 100);
  n->name = realloc(n->name, 1000); // MARK: MOVED
#ifdef GOOD
  crashproof_persist(n->name, 100);
#endif
#endif
  crashproof_persist(n, sizeof *n);
  head = n;
  crashproof_persist(&head, sizeof head);
}

int main(void) {
  // What recovery allocates must not hit what the list holds.
  char *scratch = malloc(100);
  memset(scratch, 0xff, 100); // MARK: missing-flush
  crashproof_assert(malloc_usable_size(scratch) >= 100);
  struct node *scratch_node = malloc(sizeof *scratch_node);
  memset(scratch_node, 0xff, sizeof *scratch_node);
  void *aligned;
  crashproof_assert(posix_memalign(&aligned, 256, 100) == 0 && (uintptr_t)aligned % 256 == 0);
  for (struct node *n = head; n; n = n->next) {
    crashproof_assert(n->value == 5 || n->value == 6);
    crashproof_assert(strcmp(n->name, "abc") == 0);
  }
  if (crashproof_crashes())
    return 0;
  free(scratch); // MARK: missing-flush-2
  free(scratch_node);
  free(aligned);
  push(5);
  push(6);
  char *copy = strdup("copied"); // allocated by the C library for the program
  free(copy);
  return 0;
}
