// A pointer makes a node reachable before the node is durable: not flushed, or flushed without a fence.
#include "raw.h"

struct node {
  uint64_t key;
  struct node *next;
};
PERSISTENT struct node *head;

void push(struct node *n, uint64_t key) {
  n->key = key;
  n->next = head;
  head = n; //~ publish-before-persist
  persist(n, sizeof *n);
  persist(&head, sizeof head);
}

void push_unfenced(struct node *n, uint64_t key) {
  n->key = key;
  n->next = head;
  flush(n, sizeof *n);
  head = n; //~ publish-before-persist
  persist(&head, sizeof head);
}
