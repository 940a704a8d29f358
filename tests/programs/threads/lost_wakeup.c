// A thread waits for a condition without looking whether it holds already: if the other one signals first, it waits forever.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules of real runs)
//@ variant looks: -DLOOKS
//@ flags check: --schedules all
//@ check: clean
//@ variant plain:
//@ flags check: --schedules all
//@ check: lost-wakeup (deadlock)

#include <crashproof.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready;
PERSISTENT long done;

static void *waiter(void *unused) {
  pthread_mutex_lock(&mutex);
#ifdef LOOKS
  while (!ready)
#endif
    pthread_cond_wait(&condition, &mutex);
  done = 1;
  crashproof_persist(&done, sizeof done);
  pthread_mutex_unlock(&mutex);
  return unused;
}

static void *signaller(void *unused) {
  pthread_mutex_lock(&mutex);
  ready = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  return unused;
}

int main(void) {
  if (crashproof_crashes())
    return done > 1;
  pthread_t threads[2];
  pthread_create(&threads[0], 0, waiter, 0);
  pthread_create(&threads[1], 0, signaller, 0);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
