// Threads of C++: mutexes, conditions, call_once, local statics, atomic waiting, thread-local destructors.
//@ prove: unknown (calls `__cxa_thread_atexit`, which is not defined here)
//@ variant fixed: -std=c++20 -DFIXED
//@ flags check: --schedules 8
//@ check: clean
//@ lint: clean, no warnings
//@ variant plain: -std=c++20
//@ flags check: --schedules 8
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails

#include <crashproof.h>

#include <atomic>
#include <condition_variable>
#include <chrono>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

struct Cell {
  long value;
  char apart[56];
  long valid;
  char apart_too[56];
};
static Cell *cells;
static constexpr int kCells = 3;

static std::mutex lock;
static std::recursive_mutex nested;
static std::shared_mutex shared;
static std::timed_mutex timed;
static std::condition_variable changed;
static std::once_flag once;
static std::atomic<int> ready{0}, ended{0};
static std::counting_semaphore<8> permits{1};
static int produced, once_ran, once_tried;

struct AtEnd {
  ~AtEnd() { ended++; }
};

static int &local_static() {
  static int made = [] {
    std::this_thread::yield();
    return 5;
  }();
  return made;
}

static void produce() {
  thread_local AtEnd at_end;
  (void)&at_end;
  for (int i = 0; i < kCells; i++) {
    cells[i].value = i + 1; // MARK: recovery-fails
#ifdef FIXED
    crashproof_persist(&cells[i].value, sizeof(long));
#endif
    std::lock_guard<std::recursive_mutex> outer(nested), inner(nested);
    {
      std::lock_guard<std::mutex> guard(lock);
      produced++;
    }
    changed.notify_one();
  }
}

static void consume() {
  thread_local AtEnd at_end;
  (void)&at_end;
  for (int i = 0; i < kCells; i++) {
    std::unique_lock<std::mutex> guard(lock);
    changed.wait(guard, [&] { return produced > i; });
    cells[i].valid = 1;
    crashproof_persist(&cells[i].valid, sizeof(long));
  }
}

int main() {
  cells = static_cast<Cell *>(crashproof_root(kCells * sizeof *cells));
  if (crashproof_crashes()) {
    for (int i = 0; i < kCells; i++)
      if (cells[i].valid) crashproof_assert(cells[i].value == i + 1);
    return 0;
  }
  {
    std::jthread producer(produce), consumer(consume);
  }
  crashproof_assert(ended == 2);

  std::latch everybody{4};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] {
      try {
        std::call_once(once, [] {
          if (once_tried++ == 0) throw std::runtime_error("try again");
          once_ran++;
        });
      } catch (const std::runtime_error &) {
      }
      crashproof_assert(local_static() == 5);
      {
        std::unique_lock<std::shared_mutex> write(shared);
      }
      {
        std::shared_lock<std::shared_mutex> read(shared);
      }
      permits.acquire();
      permits.release();
      ready.wait(0);
      everybody.arrive_and_wait();
    });
  ready = 1;
  ready.notify_all();
  for (auto &thread : threads) thread.join();
  crashproof_assert(once_ran == 1 && once_tried == 2);

  std::unique_lock<std::mutex> guard(lock);
  bool came = changed.wait_for(guard, std::chrono::hours(1), [] { return false; });
  crashproof_assert(!came);
  timed.lock();
  std::thread([] { crashproof_assert(!timed.try_lock_for(std::chrono::seconds(1))); }).join();
  timed.unlock();
  std::this_thread::sleep_for(std::chrono::hours(1));
  return 0;
}
