// Places inside the standard library are told as the call.
//@ check: skip (a fragment: it has no main)
//@ lint: publish-before-persist at publish-before-persist
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
  head.store(node); // MARK: publish-before-persist
  persist(&head, sizeof head);
  persist(node, sizeof *node);
}
