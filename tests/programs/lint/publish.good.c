// As publish.bad.c, in the right order. A clflush cannot be passed by a later store: it needs no fence here.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct node {
  uint64_t key;
  struct node *next;
};
PERSISTENT struct node *head;

void push(struct node *n, uint64_t key) {
  n->key = key;
  n->next = head;
  persist(n, sizeof *n);
  head = n;
  persist(&head, sizeof head);
}

void push_clflush(struct node *n, uint64_t key) {
  n->key = key;
  _mm_clflush(&n->key);
  n->next = head;
  _mm_clflush(&n->next);
  head = n;
  persist(&head, sizeof head);
}
