// std::mutex around a pair in persistent memory, with lock_guard and a vector of threads.
//@ args: {dir}/pair
//@ cflags: -pthread
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ flags check: --schedules 8
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ flags check: --schedules 8
//@ check: recovery-fails at log
//@ prove: refuted at claim

#include <cassert>
#include <cstdint>
#include <fcntl.h>
#include <immintrin.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct Pair {
  alignas(64) std::uint64_t log;
  alignas(64) std::uint64_t counter;
};

static std::mutex lock;
static Pair *pair;

static void persist(void *p) {
  _mm_clwb(p);
  _mm_sfence();
}

static void increment() {
  std::lock_guard<std::mutex> guard(lock);
  pair->log = pair->counter + 1; // MARK: log
#if BUG != 1
  persist(&pair->log);
#endif
  pair->counter = pair->log; // MARK: counter
  persist(&pair->counter);
}

int main(int argc, char **argv) {
  int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(Pair)) != 0)
    return 1;
  void *memory = mmap(nullptr, sizeof(Pair), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return 1;
  pair = static_cast<Pair *>(memory);
  assert(pair->log >= pair->counter); // MARK: claim
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back(increment);
  for (auto &thread : threads)
    thread.join();
  return 0;
}
