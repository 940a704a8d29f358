// A queue between two threads, with standard atomics in the pool.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean, no warnings
//@ variant item: -DBUG=1
//@ lint: unflushed-write at number
//@ lint: unflushed-write at item
//@ variant tail: -DBUG=2
//@ lint: unflushed-write at tail
#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace {

struct Item {
  std::uint64_t number;
  std::uint64_t square;
};

struct Queue {
  alignas(64) std::atomic<std::uint64_t> head;
  alignas(64) std::atomic<std::uint64_t> tail;
  alignas(64) Item items[8];
};

void flush(const void *address) { _mm_clwb(const_cast<void *>(address)); }
void fence() { _mm_sfence(); }

Queue *attach(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Queue)) < 0)
    std::exit(1);
  void *at = mmap(nullptr, sizeof(Queue), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED)
    std::exit(1);
  return static_cast<Queue *>(at);
}

void produce(Queue *queue, std::uint64_t number) {
  auto tail = queue->tail.load(std::memory_order_relaxed);
  Item &item = queue->items[tail % 8];
  item.number = number;          // MARK: number
  item.square = number * number; // MARK: item
#if BUG != 1
  flush(&item);
  fence();
#endif
  queue->tail.store(tail + 1, std::memory_order_release); // MARK: tail
#if BUG != 2
  flush(&queue->tail);
  fence();
#endif
}

void consume(Queue *queue) {
  auto head = queue->head.load(std::memory_order_relaxed);
  if (head == queue->tail.load(std::memory_order_acquire))
    return;
  queue->head.store(head + 1, std::memory_order_release);
  flush(&queue->head);
  fence();
}

} // namespace

int main(int, char **argv) {
  Queue *queue = attach(argv[1]);
  auto head = queue->head.load(), tail = queue->tail.load();
  assert(head <= tail);
  for (auto i = head; i < tail; i++)
    assert(queue->items[i % 8].square == queue->items[i % 8].number * queue->items[i % 8].number);
  if (tail == 0) {
    std::thread producer([queue] {
      produce(queue, 3);
      produce(queue, 4);
    });
    consume(queue);
    producer.join();
  }
  return 0;
}
