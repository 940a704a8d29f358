// A block of a persistent heap is freed before it is durable that nothing leads to it. What recovery finds there is the pattern
// of freed memory, which the report calls by its name.
//@ flags check: --pm-heap
//@ lint: skip (lint has no --pm-heap)
//@ prove: skip (prove has no --pm-heap)
//@ variant good: -DGOOD
//@ check: clean
//@ variant early:
//@ check: fails at head (memory that is freed at freed_early.c)
//@ check: fails at free (memory that is freed at freed_early.c)
#include <crashproof.h>
#include <stdlib.h>

struct node {
  struct node *next;
  long value;
};

PERSISTENT struct node *head;

static void push(long value) {
  struct node *fresh = malloc(sizeof *fresh);
  fresh->value = value;
  fresh->next = head;
  crashproof_persist(fresh, sizeof *fresh);
  head = fresh;
  crashproof_persist(&head, sizeof head);
}

static void pop(void) {
  struct node *first = head;
#ifdef GOOD
  head = first->next;
  crashproof_persist(&head, sizeof head);
  free(first);
#else
  struct node *next = first->next;
  free(first); // MARK: free
  head = next; // MARK: head
  crashproof_persist(&head, sizeof head);
#endif
}

int main(void) {
  if (crashproof_crashes()) {
    for (struct node *at = head; at; at = at->next)
      crashproof_assert(at->value >= 1 && at->value <= 3);
    return 0;
  }
  for (long value = 1; value <= 3; value++)
    push(value);
  pop();
  return 0;
}
