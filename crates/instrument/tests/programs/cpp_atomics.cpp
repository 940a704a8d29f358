// std::atomic and its fences.
#include "test.h"
#include <atomic>

struct node {
  std::atomic<long> value;
  std::atomic<node *> next;
};

__attribute__((noinline)) static void publish(node *n) {
  n->value.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release); // no instruction
  n->next.store(n, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  n->value.fetch_add(2);
  std::atomic_signal_fence(std::memory_order_seq_cst); // no instruction
  long expected = 3;
  CHECK(n->value.compare_exchange_strong(expected, 4));
  CHECK(n->next.load() == n);
}

int main() {
  publish(PM(node, 0));
  return 0;
}
