// A thread that waits for a number of rounds and then goes another way: that way is taken under some schedules only.
//@ variant plain:
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: refuted at claim
//@ variant endless: -DENDLESS
//@ check: clean
//@ lint: unflushed-write at lost
//@ prove: vacuous
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
struct data {
  long started, gave_up;
  char apart[64 - 2 * sizeof(long)];
  long value;
};
PERSISTENT struct data data;
static atomic_int ready;
static void *get_ready(void *unused) {
  atomic_store(&ready, 1);
  return unused;
}
static void *wait_for_it(void *unused) {
#ifdef ENDLESS
  while (!atomic_load(&ready))
    ;
  if (atomic_load(&ready)) return unused;
#else
  for (int round = 0; round < 5; round++)
    if (atomic_load(&ready)) return unused;
#endif
  data.value = 42; // MARK: lost
  data.gave_up = 1;
  crashproof_persist(&data.gave_up, sizeof data.gave_up);
  return unused;
}
int main(void) {
  pthread_t threads[2];
  data.started = 1;
  crashproof_persist(&data.started, sizeof data.started);
  pthread_create(&threads[0], 0, get_ready, 0);
  pthread_create(&threads[1], 0, wait_for_it, 0);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
void recover(void) {
  crashproof_assert(!data.gave_up || data.value == 42); // MARK: claim
}
