// A bounded queue as a template over its element and its size; indices are std::atomic.
//@ args: {dir}/queue
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant element: -DBUG=1
//@ check: recovery-fails at element
//@ lint: unflushed-write at element
//@ variant order: -DBUG=2
//@ check: recovery-fails at element
//@ lint: publish-before-persist at element
#include <array>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <fcntl.h>
#include <immintrin.h>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>

struct Flusher {
  static void flush(const void *p, std::size_t n) {
    auto at = reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t{63};
    const auto end = reinterpret_cast<std::uintptr_t>(p) + n;
    for (; at < end; at += 64)
      _mm_clwb(reinterpret_cast<void *>(at));
  }
  static void fence() { _mm_sfence(); }
};

template <typename T, std::size_t N, typename F = Flusher> class Queue {
public:
  bool push(const T &value) {
    const auto tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == N)
      return false;
    cells_[tail % N] = value; // MARK: element
#if BUG == 0
    F::flush(&cells_[tail % N], sizeof(T));
    F::fence();
#endif
    tail_.store(tail + 1, std::memory_order_release);
    F::flush(&tail_, sizeof tail_);
    F::fence();
#if BUG == 2
    F::flush(&cells_[tail % N], sizeof(T));
    F::fence();
#endif
    return true;
  }
  std::optional<T> peek(std::size_t i) const {
    if (head_.load() + i >= tail_.load())
      return std::nullopt;
    return cells_[(head_.load() + i) % N];
  }

private:
  alignas(64) std::atomic<std::uint64_t> head_;
  alignas(64) std::atomic<std::uint64_t> tail_;
  alignas(64) std::array<T, N> cells_;
};

struct Order {
  std::uint64_t id;
  std::uint64_t amount;
};

int main(int, char **argv) {
  using Orders = Queue<Order, 4>;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Orders)) < 0)
    return 1;
  void *p = mmap(nullptr, sizeof(Orders), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED)
    return 1;
  auto &orders = *reinterpret_cast<Orders *>(p);
  for (std::size_t i = 0; auto order = orders.peek(i); i++)
    assert(order->amount == 10 * order->id && order->id != 0); // MARK: claim
  if (!orders.peek(0)) {
    orders.push({1, 10});
    orders.push({2, 20});
  }
  return 0;
}
