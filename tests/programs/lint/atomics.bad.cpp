// Places inside the standard library are told as the call.
//@ check: skip (a fragment: it has no main)
//@ lint: publish-before-persist at key
//@ lint: publish-before-persist at next
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
#include <atomic>

struct alignas(64) Node {
  uint64_t key;
  std::atomic<Node *> next;
};

PERSISTENT static std::atomic<Node *> head;

void push(Node *node, uint64_t key) {
  node->key = key; // MARK: key
  node->next.store(head.load()); // MARK: next
  head.store(node);
  persist(&head, sizeof head);
  persist(node, sizeof *node);
}
