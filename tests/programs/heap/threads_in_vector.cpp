// With `--pm-heap` the handles of threads in a vector are persistent memory: that they are stored is no moment at which the new
// thread runs already, although nothing says yet that it was created.
//@ cflags: -std=c++17 -O1 -pthread
//@ flags check: --pm-heap --schedules 20
//@ prove: skip (prove has no persistent heap)
//@ lint: skip (lint has no persistent heap)
//@ variant good:
//@ check: clean, no warnings
//@ variant unlocked: -DUNLOCKED
//@ check: data-race at ADDED
//@ check: fence-nothing-pending at PERSISTED
#include <crashproof.h>
#include <mutex>
#include <thread>
#include <vector>

struct counter {
  std::mutex lock;
  long total = 0;
};

int main() {
  auto *shared = new counter;
  crashproof_persist(&shared->total, sizeof shared->total);
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (long number = 1; number <= 2; number++)
    threads.emplace_back([shared, number] {
#ifndef UNLOCKED
      std::lock_guard<std::mutex> guard(shared->lock);
#endif
      shared->total += number; // MARK: ADDED
      crashproof_persist(&shared->total, sizeof shared->total); // MARK: PERSISTED
    });
  for (auto &thread : threads)
    thread.join();
  return 0;
}
