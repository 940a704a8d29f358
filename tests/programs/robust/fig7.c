// PSan, Figure 7: every store is flushed right after it, and yet: the second thread acts on an x that the first
// has not flushed yet. The first thread's window is empty; the flush belongs into the second, after its load.
//@ prove: vacuous
//@ variant plain:
//@ flags check: --schedules 40
//@ check: missing-flush at X, survived Y, window READ..Y, reader
//@ lint: clean, no warnings
//@ robust: refuted at X
//@ variant fixed: -DFIXED
//@ flags check: --schedules 40
//@ check: clean
//@ lint: clean, no warnings
//@ robust: proved

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

PERSISTENT struct { _Atomic long at; } __attribute__((aligned(64))) x, y;

static void *store_x(void *unused) {
  atomic_store_explicit(&x.at, 1, memory_order_release); // MARK: X
  crashproof_persist(&x, 8);                             // MARK: FLUSH
  return unused;
}

static void *store_y(void *unused) {
  long r1 = atomic_load_explicit(&x.at, memory_order_acquire); // MARK: READ
#ifdef FIXED
  crashproof_persist(&x, 8);
#endif
  atomic_store_explicit(&y.at, r1, memory_order_release); // MARK: Y
  crashproof_persist(&y, 8);
  return unused;
}

int main(void) {
  if (!crashproof_crashes()) {
    pthread_t one, other;
    pthread_create(&one, 0, store_x, 0);
    pthread_create(&other, 0, store_y, 0);
    pthread_join(one, 0);
    pthread_join(other, 0);
    return 0;
  }
  volatile long r2 = x.at;
  volatile long r3 = y.at;
  (void)r2, (void)r3;
  return 0;
}
