// Store buffering: each thread stores its own word and loads the other's. On x86 both may read zero, unless
// they fence. The recorded run itself fails when that happens.
//@ variant plain:
//@ flags check: --schedules 64
//@ check: fails-under-schedule at fails-under-schedule
//@ prove: refuted at claim-violated
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at fails-under-schedule
//@ variant fenced: -DFENCED
//@ flags check: --schedules 64
//@ check: clean
//@ prove: proved
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at fails-under-schedule
//@ variant plain-2:
//@ check: fails-under-schedule at unflushed-write
//@ prove: refuted at claim-violated
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at fails-under-schedule

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

struct words {
  _Atomic long x;
  char apart[64 - sizeof(long)];
  _Atomic long y;
};
static struct words *words;
static long saw_y = -1, saw_x = -1;

static void fence(void) {
#ifdef FENCED
  __asm__ volatile("mfence" ::: "memory");
#endif
}

static void *first(void *unused) {
  atomic_store_explicit(&words->x, 1, memory_order_relaxed); // MARK: unflushed-write
  fence();
  saw_y = atomic_load_explicit(&words->y, memory_order_relaxed);
  return unused;
}

static void *second(void *unused) {
  atomic_store_explicit(&words->y, 1, memory_order_relaxed); // MARK: fails-under-schedule
  fence();
  saw_x = atomic_load_explicit(&words->x, memory_order_relaxed);
  return unused;
}

int main(void) {
  words = crashproof_root(sizeof *words);
  if (crashproof_crashes()) return 0;
  pthread_t a, b;
  pthread_create(&a, 0, first, 0);
  pthread_create(&b, 0, second, 0);
  pthread_join(a, 0);
  pthread_join(b, 0);
  crashproof_assert(saw_x == 1 || saw_y == 1); // MARK: claim-violated
  return 0;
}
