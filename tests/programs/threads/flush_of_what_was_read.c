// A thread that reads what another one stored flushes it before it goes on: that is PSan's repair, and not redundant.
//@ check: clean, no warnings
//@ lint: clean, no warnings
//@ prove: skip (what lint says is compared with check)
//@ cflags: -pthread
#include <crashproof.h>
#include <pthread.h>

PERSISTENT long first __attribute__((aligned(64)));
PERSISTENT long second __attribute__((aligned(64)));

static void *store(void *unused) {
  __atomic_store_n(&first, 1, __ATOMIC_RELEASE);
  crashproof_persist(&first, sizeof first);
  return unused;
}

static void *follow(void *unused) {
  if (__atomic_load_n(&first, __ATOMIC_ACQUIRE)) {
    crashproof_persist(&first, sizeof first);
    second = 1;
    crashproof_persist(&second, sizeof second);
  }
  return unused;
}

int main(void) {
  if (crashproof_crashes()) {
    crashproof_assert(!second || first);
    return 0;
  }
  pthread_t threads[2];
  pthread_create(&threads[0], 0, store, 0);
  pthread_create(&threads[1], 0, follow, 0);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
