// Threads of recovery wait for each other, at a barrier and for a semaphore: none goes on alone, and all end. Runs show it.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant semaphore: -DSEMAPHORE
#include <crashproof.h>
#include <pthread.h>
#include <semaphore.h>

PERSISTENT long value __attribute__((aligned(64)));
static pthread_barrier_t barrier;
static sem_t ready;

static void *first(void *unused) {
#ifdef SEMAPHORE
  sem_wait(&ready);
#else
  pthread_barrier_wait(&barrier);
#endif
  return unused;
}

static void *second(void *unused) {
#ifdef SEMAPHORE
  sem_post(&ready);
#else
  pthread_barrier_wait(&barrier);
#endif
  return unused;
}

static void recover_together(void) {
  crashproof_assert(value == 0 || value == 1);
  sem_init(&ready, 0, 0);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, first, NULL);
  pthread_create(&threads[1], NULL, second, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  if (crashproof_crashes() > 0) {
    recover_together();
    return 0;
  }
  value = 1;
  crashproof_persist(&value, sizeof value);
  return 0;
}
