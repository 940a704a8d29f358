// A detached thread reads persistent memory and posts a semaphore; when it has ended, the thread that waited for the
// semaphore creates others, which store to what the first read. The semaphore orders the two: no race.
//@ lint: clean
//@ prove: skip (prove has no semaphores)
//@ variant ordered: -DORDERED
//@ check: clean, no warnings
//@ variant racing: -DRACING
//@ check: data-race at store
#include <crashproof.h>
#include <pthread.h>
#include <semaphore.h>

PERSISTENT long phase;
static sem_t read_it;

static void *reads(void *unused) {
#ifdef RACING
  sem_post(&read_it);
#endif
  crashproof_assert(phase == 0 || phase == 1);
#ifndef RACING
  sem_post(&read_it);
#endif
  return unused;
}

static void *stores(void *unused) {
  phase = 1; // MARK: store
  crashproof_persist(&phase, sizeof phase);
  return unused;
}

int main(void) {
  crashproof_assert(phase == 0 || phase == 1);
  if (phase)
    return 0;
  sem_init(&read_it, 0, 0);
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_t first, second;
  pthread_create(&first, &detached, reads, 0);
  sem_wait(&read_it);
  pthread_create(&second, 0, stores, 0);
  pthread_join(second, 0);
  return 0;
}
