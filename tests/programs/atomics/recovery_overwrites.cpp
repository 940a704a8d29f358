//@ lint: skip (a question about what recovery reads)
//@ prove: skip (a question about what recovery reads)
//@ variant SEQ_CST: -DSEQ_CST
//@ check: clean
//@ variant RELEASE: -DRELEASE
//@ check: clean
//@ variant EXCHANGE: -DEXCHANGE
//@ check: missing-flush at lost
// As recovery_overwrites.c, for `std::atomic`.
#include <atomic>
#include <crashproof.h>

struct alignas(64) Line {
  std::atomic<long> at;
};

PERSISTENT Line x, y;

int main() {
  if (!crashproof_crashes()) {
    x.at.store(1, std::memory_order_relaxed); // MARK: lost
    y.at.store(1, std::memory_order_relaxed);
    crashproof_persist(&y, 8);
    return 0;
  }
#if defined SEQ_CST
  x.at.store(2);
#elif defined RELEASE
  x.at.store(2, std::memory_order_release);
#else
  volatile long old = x.at.exchange(2);
  (void)old;
#endif
  volatile long survived = y.at.load(std::memory_order_relaxed);
  (void)survived;
}
