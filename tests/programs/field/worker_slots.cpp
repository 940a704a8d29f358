// Two threads each fill a slot of their own and set its ready flag, a std::atomic.
//@ args: {dir}/slots
//@ prove: skip (written for lint; not measured with prove yet)
//@ cflags: -pthread
//@ flags check: --schedules 4
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant result: -DBUG=1
//@ check: recovery-fails at result
//@ lint: unflushed-write at result
//@ variant done: -DBUG=2
//@ check: recovery-fails at ready
//@ lint: unflushed-write at ready
#include <atomic>
#include <cassert>
#include <cstdint>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct Slot {
  alignas(64) std::uint64_t result;
  alignas(64) std::atomic<bool> ready;
};

struct Job {
  alignas(64) std::atomic<std::uint64_t> finished;
  Slot slots[2];
};

template <typename T> static void sync(const T *p) {
  _mm_clwb(const_cast<T *>(p));
  _mm_sfence();
}

static void work(Slot *slot, std::uint64_t n) {
  slot->result = n * n; // MARK: result
#if BUG != 1
  sync(&slot->result);
#endif
  slot->ready.store(true, std::memory_order_release); // MARK: ready
#if BUG != 2
  sync(&slot->ready);
#endif
}

int main(int, char **argv) {
  int fd = ::open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(Job)) < 0)
    return 1;
  void *at = ::mmap(nullptr, sizeof(Job), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED)
    return 1;
  auto *job = static_cast<Job *>(at);
  for (int i = 0; i < 2; i++)
    if (job->slots[i].ready.load())
      assert(job->slots[i].result == std::uint64_t(i + 2) * (i + 2)); // MARK: claim
  if (job->finished.load())
    assert(job->slots[0].ready.load() && job->slots[1].ready.load()); // MARK: all
  std::thread other(work, &job->slots[0], 2);
  work(&job->slots[1], 3);
  other.join();
  job->finished.store(1);
  sync(&job->finished);
  return 0;
}
