// std::thread and std::atomic: one thread publishes data by a flag in persistent memory, the other consumes it.
//@ args: {dir}/box
//@ cflags: -pthread
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ flags check: --schedules 8
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ flags check: --schedules 8
//@ check: recovery-fails at data
//@ prove: refuted at claim
//@ variant bug-2: -DBUG=2
//@ flags check: --schedules 8
//@ check: recovery-fails at ready
//@ prove: refuted at claim-2

#include <atomic>
#include <cassert>
#include <cstdint>
#include <fcntl.h>
#include <immintrin.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

struct Box {
  alignas(64) std::uint64_t data;
  alignas(64) std::atomic<std::uint64_t> ready;
  alignas(64) std::uint64_t seen;
};

static void persist(void *p) {
  _mm_clwb(p);
  _mm_sfence();
}

static void produce(Box &box) {
  box.data = 42; // MARK: data
#if BUG != 1
  persist(&box.data);
#endif
  box.ready.store(1, std::memory_order_release); // MARK: ready
#if BUG != 2
  persist(&box.ready);
#endif
}

static void consume(Box &box) {
  if (box.ready.load(std::memory_order_acquire) == 1) {
#if BUG != 2
    persist(&box.ready);
#endif
    box.seen = box.data; // MARK: seen
    persist(&box.seen);
  }
}

int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "box", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(Box)) != 0)
    return 1;
  void *memory = mmap(nullptr, sizeof(Box), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return 1;
  Box &box = *static_cast<Box *>(memory);
  if (box.ready.load())
    assert(box.data == 42); // MARK: claim
  if (box.seen != 0) {
    assert(box.seen == 42);
    assert(box.ready.load() == 1); // MARK: claim-2
  }
  std::thread producer(produce, std::ref(box));
  std::thread consumer([&box] { consume(box); });
  producer.join();
  consumer.join();
  return 0;
}
