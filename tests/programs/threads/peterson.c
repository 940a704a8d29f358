// Peterson's lock in volatile memory. Its stores must not wait in the store buffer while the thread looks at the other's
// flag: with release stores both threads get in.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules of real runs)
//@ variant fenced: -DORDER=memory_order_seq_cst
//@ flags check: --schedules all
//@ check: clean
//@ variant plain: -DORDER=memory_order_release
//@ flags check: --schedules all
//@ check: fails-under-schedule

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

static _Atomic int flag[2], turn, inside;
PERSISTENT long counter;

static void *run(void *argument) {
  int me = argument != 0, other = !me;
  atomic_store_explicit(&flag[me], 1, ORDER);
  atomic_store_explicit(&turn, other, ORDER);
  while (atomic_load_explicit(&flag[other], memory_order_acquire) &&
         atomic_load_explicit(&turn, memory_order_acquire) == other)
    ;
  crashproof_assert(atomic_fetch_add(&inside, 1) == 0);
  counter++;
  crashproof_persist(&counter, sizeof counter);
  atomic_fetch_sub(&inside, 1);
  atomic_store_explicit(&flag[me], 0, memory_order_release);
  return 0;
}

int main(void) {
  if (crashproof_crashes())
    return counter < 0 || counter > 2;
  pthread_t threads[2];
  pthread_create(&threads[0], 0, run, 0);
  pthread_create(&threads[1], 0, run, &counter);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
