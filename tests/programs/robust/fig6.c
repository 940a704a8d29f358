// PSan, Figure 6: two threads that know nothing of each other. Losing x and keeping y is what a machine without
// caches could leave, whichever reached the cache first. Not so if one of them waits for the other.
//@ lint: unflushed-write at X
//@ prove: vacuous
//@ variant plain:
//@ flags check: --schedules 12
//@ check: clean
//@ robust: proved
//@ variant joined: -DJOINED
//@ flags check: --schedules 2
//@ check: missing-flush at X, survived Y, window Y..Y, reader
//@ robust: refuted at X

#include <crashproof.h>
#include <pthread.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) x, y;

static void *store_x(void *unused) {
  x.at = 1; // MARK: X
  return unused;
}

static void *store_y(void *unused) {
  y.at = 1; // MARK: Y
  crashproof_persist(&y, 8);
  return unused;
}

int main(void) {
  if (!crashproof_crashes()) {
    pthread_t one, other;
    pthread_create(&one, 0, store_x, 0);
#ifdef JOINED
    pthread_join(one, 0);
    pthread_create(&other, 0, store_y, 0);
#else
    pthread_create(&other, 0, store_y, 0);
    pthread_join(one, 0);
#endif
    pthread_join(other, 0);
    return 0;
  }
  volatile long r1 = x.at;
  volatile long r2 = y.at;
  (void)r1, (void)r2;
  return 0;
}
