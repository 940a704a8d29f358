// A signal may wake either of two waiting threads, whichever has waited longer; only one of them flushes what it stores.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules)
//@ variant flushed: -DFLUSHED
//@ check: clean
//@ variant unflushed:
//@ check: recovery-fails at second
#include <crashproof.h>
#include <pthread.h>

PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER, waits = PTHREAD_COND_INITIALIZER;
static int waiting, calls;

static void await_call(int number) {
  pthread_mutex_lock(&lock);
  while (waiting < number) // the first begins to wait first
    pthread_cond_wait(&waits, &lock);
  waiting++;
  pthread_cond_broadcast(&waits);
  while (!calls)
    pthread_cond_wait(&called, &lock);
  calls--;
}

static void *first(void *unused) {
  await_call(0);
  if (!data) {
    data = 1;
    crashproof_persist(&data, sizeof data);
    done = 1;
    crashproof_persist(&done, sizeof done);
  }
  calls++;
  pthread_cond_signal(&called);
  pthread_mutex_unlock(&lock);
  return unused;
}

static void *second(void *unused) {
  await_call(1);
  if (!data) {
    data = 2; // MARK: second
#ifdef FLUSHED
    crashproof_persist(&data, sizeof data);
#endif
    done = 1;
    crashproof_persist(&done, sizeof done);
  }
  calls++;
  pthread_cond_signal(&called);
  pthread_mutex_unlock(&lock);
  return unused;
}

int main(void) {
  if (crashproof_crashes()) {
    crashproof_assert(!done || data);
    return 0;
  }
  pthread_t threads[2];
  pthread_create(&threads[0], 0, first, 0);
  pthread_create(&threads[1], 0, second, 0);
  pthread_mutex_lock(&lock);
  while (waiting < 2)
    pthread_cond_wait(&waits, &lock);
  calls = 1;
  pthread_cond_signal(&called);
  pthread_mutex_unlock(&lock);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
