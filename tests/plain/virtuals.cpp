// std::atomic members and a member function.
#include "pool.h"
#include <atomic>
#include <new>
struct counter { std::atomic<long> value; char pad[56]; };
struct table {
  counter counters[4];
  std::atomic<long> total;
  void add(int which) {
    counters[which].value.fetch_add(1); // MARK
    CORRECT(persist(&counters[which], 8));
    total.fetch_add(1, std::memory_order_release);
    persist(&total, 8);
  }
};
int main() {
  table *t = static_cast<table *>(pool(4096));
  long sum = 0;
  for (counter &c : t->counters)
    sum += c.value.load();
  assert(t->total.load() <= sum);
  for (int i = 0; i < 6; i++)
    t->add(i % 4);
}
