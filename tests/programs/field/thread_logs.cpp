// Each thread has a log of one cache line: an entry and the count that covers it are one line, whatever the index is.
//@ args: {dir}/logs
//@ cflags: -pthread
//@ flags check: --schedules 4
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant count: -DBUG_count
//@ check: fails at count
//@ lint: unflushed-write at record
//@ lint: unflushed-write at count
//@ prove: refuted at claim
#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>
struct alignas(64) PerThread { std::uint64_t count; std::uint64_t items[7]; };
struct Store { PerThread logs[2]; };
static void flush(const void *p) { _mm_clflushopt(const_cast<void *>(p)); }
static void writer(PerThread *log, std::uint64_t base) {
  for (std::uint64_t i = 0; i < 2; i++) {
    std::uint64_t n = log->count;
    if (n == 7) return;
    log->items[n] = base + n; // MARK: record
    // same line: items[n] before count in program order
    log->count = n + 1; // MARK: count
#ifndef BUG_count
    flush(&log->count);
    _mm_sfence();
#endif
  }
}
struct alignas(64) Done { std::atomic<std::uint64_t> total; };
int main(int, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0) return 1;
  const std::size_t sz = sizeof(Store) + sizeof(Done);
  if (ftruncate(fd, sz)) return 1;
  void *m = mmap(nullptr, sz, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (m == MAP_FAILED) return 1;
  auto *s = static_cast<Store *>(m);
  auto *d = reinterpret_cast<Done *>(s + 1);
  std::uint64_t sum = 0;
  for (int t = 0; t < 2; t++) {
    for (std::uint64_t i = 0; i < s->logs[t].count; i++) assert(s->logs[t].items[i] == (t + 1) * 1000u + i);
    sum += s->logs[t].count;
  }
  assert(d->total.load() <= sum); // MARK: claim
  std::vector<std::thread> ts;
  for (int t = 0; t < 2; t++) ts.emplace_back([s, t] { writer(&s->logs[t], (t + 1) * 1000); });
  for (auto &t : ts) t.join();
  d->total.store(s->logs[0].count + s->logs[1].count);
  flush(d);
  _mm_sfence();
  return 0;
}
