// As atomics.bad.cpp, the node first.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
#include <atomic>

struct alignas(64) Node {
  uint64_t key;
  std::atomic<Node *> next;
};

PERSISTENT static std::atomic<Node *> head;

void push(Node *node, uint64_t key) {
  node->key = key;
  node->next.store(head.load());
  persist(node, sizeof *node);
  head.store(node);
  persist(&head, sizeof head);
}
