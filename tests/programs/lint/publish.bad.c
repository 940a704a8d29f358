// A pointer makes a node reachable before the node is durable: not flushed, or flushed without a fence.
//@ check: skip (a fragment: it has no main)
//@ lint: publish-before-persist at publish-before-persist
//@ lint: publish-before-persist at publish-before-persist-2
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
  head = n; // MARK: publish-before-persist
  persist(n, sizeof *n);
  persist(&head, sizeof head);
}

void push_unfenced(struct node *n, uint64_t key) {
  n->key = key;
  n->next = head;
  flush(n, sizeof *n);
  head = n; // MARK: publish-before-persist-2
  persist(&head, sizeof head);
}
