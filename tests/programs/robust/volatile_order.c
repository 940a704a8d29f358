//@ lint: unflushed-write at x
//@ variant mutex: -DMUTEX
//@ check: missing-flush at x, survived y, window x..y, primary
//@ prove: proved
//@ robust: proved
//@ variant atomic: -DATOMIC
//@ check: missing-flush at x, survived y, window x..store, primary
//@ prove: proved
//@ robust: refuted at x
//@ variant exchange: -DEXCHANGE
//@ check: missing-flush at x, survived y, window x..exchange, primary
//@ prove: unknown (goes round more than 64 times)
//@ robust: refuted at x
//@ variant failed: -DFAILED
//@ check: clean
//@ prove: proved
//@ robust: proved
//@ variant semaphore: -DSEMAPHORE
//@ check: missing-flush at x, survived y, window x..y, primary
//@ prove: proved
//@ robust: refuted at x
//@ variant condition: -DCONDITION
//@ check: missing-flush at x, survived y, window x..y, primary
//@ prove: proved
//@ robust: refuted at x
//@ variant nothing: -DNOTHING
//@ check: clean
//@ prove: proved
//@ robust: proved
#include <crashproof.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

// One thread stores x and forgets to flush it, another one stores y and does not. What orders the two is in volatile
// memory. Without it, or if the second thread changes nothing that the first one looks at, they are not ordered.

static struct { _Alignas(64) long x; _Alignas(64) long y; } *pm;

__attribute__((unused)) static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
__attribute__((unused)) static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
__attribute__((unused)) static sem_t semaphore;
__attribute__((unused)) static _Atomic int flag;
static int ready;

static void *first(void *unused) {
#ifdef MUTEX
  pthread_mutex_lock(&mutex);
#endif
  pm->x = 1; // MARK: x
#ifdef MUTEX
  pthread_mutex_unlock(&mutex);
#elif defined ATOMIC
  atomic_store_explicit(&flag, 1, memory_order_release); // MARK: store
#elif defined EXCHANGE
  atomic_fetch_add(&flag, 1); // MARK: exchange
#elif defined FAILED
  int expected = 7;
  atomic_compare_exchange_strong(&flag, &expected, 8);
#elif defined SEMAPHORE
  sem_post(&semaphore);
#elif defined CONDITION
  pthread_mutex_lock(&mutex);
  ready = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
#endif
  return unused;
}

static void *second(void *unused) {
#ifdef MUTEX
  pthread_mutex_lock(&mutex);
#elif defined ATOMIC
  while (!atomic_load_explicit(&flag, memory_order_acquire)) {}
#elif defined EXCHANGE
  while (!atomic_fetch_add(&flag, 0)) {}
#elif defined FAILED
  atomic_load(&flag);
#elif defined SEMAPHORE
  sem_wait(&semaphore);
#elif defined CONDITION
  pthread_mutex_lock(&mutex);
  while (!ready)
    pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
#endif
  pm->y = 1; // MARK: y
  crashproof_persist(&pm->y, sizeof pm->y);
#ifdef MUTEX
  pthread_mutex_unlock(&mutex);
#endif
  return unused;
}

int main(void) {
  pm = crashproof_root(sizeof *pm);
  if (crashproof_crashes())
    return (pm->y + pm->x) & 8;
  sem_init(&semaphore, 0, 0);
  pthread_t threads[2];
  pthread_create(&threads[0], 0, first, 0);
  pthread_create(&threads[1], 0, second, 0);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return ready & 8;
}
