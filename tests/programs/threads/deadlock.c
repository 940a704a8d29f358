// Two mutexes taken in opposite orders. The first schedule gets through; others do not.
//@ lint: clean, no warnings
//@ variant plain:
//@ check: deadlock (the program deadlocks without any crash under schedule)
//@ prove: refuted (known wrong: threads that wait for each other are not reported)
//@ variant plain-2:
//@ flags check: --schedules 32
//@ check: deadlock (the program deadlocks without any crash under schedule)
//@ prove: refuted (known wrong: threads that wait for each other are not reported)
//@ variant ordered: -DORDERED
//@ flags check: --schedules 32
//@ check: clean
//@ prove: vacuous
//@ variant recovery-ordered: -DRECOVERY -DORDERED
//@ flags check: --schedules 2
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost (deadlock)
//@ prove: refuted at claim-violated

#include <crashproof.h>
#include <pthread.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static long *counter;

static void step(pthread_mutex_t *first, pthread_mutex_t *second) {
  pthread_mutex_lock(first);
  pthread_mutex_lock(second);
  ++*counter; // MARK: recovery-fails-nothing-lost
  crashproof_persist(counter, sizeof *counter);
  pthread_mutex_unlock(second);
  pthread_mutex_unlock(first);
}

static void *one(void *unused) {
  step(&a, &b);
  return unused;
}

static void *other(void *unused) {
#ifdef ORDERED
  step(&a, &b);
#else
  step(&b, &a);
#endif
  return unused;
}

int main(void) {
  counter = crashproof_root(sizeof *counter);
  if (crashproof_crashes()) {
#ifdef RECOVERY
    if (*counter == 1) {
      pthread_mutex_lock(&a);
      pthread_mutex_lock(&a); // MARK: claim-violated
    }
#endif
    return 0;
  }
  pthread_t x, y;
  pthread_create(&x, 0, one, 0);
  pthread_create(&y, 0, other, 0);
  pthread_join(x, 0);
  pthread_join(y, 0);
  return 0;
}
