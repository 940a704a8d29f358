// A pointer makes a node reachable before the node is durable: not flushed, or flushed without a fence.
//@ check: skip (a fragment: it has no main)
//@ lint: publish-before-persist at key
//@ lint: publish-before-persist at next
//@ lint: publish-before-persist at key-unfenced
//@ lint: publish-before-persist at next-unfenced
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct node {
  uint64_t key;
  struct node *next;
};
PERSISTENT struct node *head;

void push(struct node *n, uint64_t key) {
  n->key = key; // MARK: key
  n->next = head; // MARK: next
  head = n;
  persist(n, sizeof *n);
  persist(&head, sizeof head);
}

void push_unfenced(struct node *n, uint64_t key) {
  n->key = key; // MARK: key-unfenced
  n->next = head; // MARK: next-unfenced
  flush(n, sizeof *n);
  head = n;
  persist(&head, sizeof head);
}
