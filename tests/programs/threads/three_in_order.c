// Three threads must run in the opposite of the order in which they were created: of random schedules next to none does.
// Each stores what the one before it made visible, and nobody flushes.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules of real runs)
//@ flags check: --schedules all
//@ check: recovery-fails at lost

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

struct line {
  _Atomic long value;
} __attribute__((aligned(64)));
PERSISTENT struct line a, b, c, d;

static void *first(void *unused) {
  atomic_store(&a.value, 1); // MARK: lost
  return unused;
}

static void *second(void *unused) {
  if (atomic_load(&a.value))
    atomic_store(&b.value, 1);
  return unused;
}

static void *third(void *unused) {
  if (atomic_load(&b.value)) {
    atomic_store(&c.value, 1);
    crashproof_persist(&c, sizeof c);
  }
  return unused;
}

int main(void) {
  if (crashproof_crashes())
    return c.value == 1 && a.value == 0;
  pthread_t threads[3];
  pthread_create(&threads[0], 0, third, 0);
  pthread_create(&threads[1], 0, second, 0);
  pthread_create(&threads[2], 0, first, 0);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], 0);
  return 0;
}
