// As atomic_store.c, for `std::atomic`.
//
// run:
// none
// run: -DRELEASE
// none
// run: -DASSIGN
// none
// run: -DEXCHANGE
// error lost=X survived=Y window=X..Y primary new never

#include <atomic>
#include <crashproof.h>

struct alignas(64) Line {
  std::atomic<long> at;
};

PERSISTENT Line x, y;

int main() {
  if (!crashproof_crashes()) {
    x.at.store(1, std::memory_order_relaxed); // X
    y.at.store(1, std::memory_order_relaxed); // Y
    crashproof_persist(&y, 8);
    return 0;
  }
#if defined RELEASE
  x.at.store(2, std::memory_order_release);
#elif defined ASSIGN
  x.at = 2;
#elif defined EXCHANGE
  volatile long old = x.at.exchange(2);
  (void)old;
#else
  x.at.store(2);
#endif
  volatile long survived = y.at.load(std::memory_order_relaxed);
  (void)survived;
}
