// Spinning on volatile memory, on persistent memory, on a lock made of an exchange, and with sched_yield:
// whoever is waited for gets to run.
//@ flags check: --schedules 12
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved

#include <crashproof.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static _Atomic int go, lock, turn;
static struct { _Atomic long flag, value; } *pm;

static void *work(void *unused) {
  while (!atomic_load_explicit(&go, memory_order_acquire)) {}
  while (!atomic_load_explicit(&pm->flag, memory_order_acquire)) {}
  while (atomic_exchange(&lock, 1)) {}
  pm->value++; // MARK: unflushed-write
  atomic_store_explicit(&lock, 0, memory_order_release);
  while (!atomic_load(&turn)) sched_yield();
  return unused;
}

int main(void) {
  pm = crashproof_root(sizeof *pm);
  if (crashproof_crashes()) {
    crashproof_assert(pm->value <= 3);
    return 0;
  }
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
  atomic_store(&go, 1);
  pm->flag = 1;
  while (atomic_load(&pm->value) < 3) __builtin_ia32_pause();
  atomic_store(&turn, 1);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
  crashproof_assert(pm->value == 3);
  crashproof_persist(pm, sizeof *pm);
  return 0;
}
