// A thread may wake up from a condition variable although nobody signaled it: who does not look again goes on too early.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules)
//@ variant loop: -DLOOP
//@ check: clean
//@ variant once:
//@ check: fails at early
#include <crashproof.h>
#include <pthread.h>

PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long seen __attribute__((aligned(64)));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ready;

static void *produce(void *unused) {
  pthread_mutex_lock(&lock);
  data = 7;
  crashproof_persist(&data, sizeof data);
  ready = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
  return unused;
}

int main(void) {
  if (crashproof_crashes())
    return 0;
  pthread_t producer;
  pthread_create(&producer, 0, produce, 0);
  pthread_mutex_lock(&lock);
#ifdef LOOP
  while (!ready)
#else
  if (!ready)
#endif
    pthread_cond_wait(&changed, &lock);
  crashproof_assert(data == 7); // MARK: early
  pthread_mutex_unlock(&lock);
  pthread_join(producer, 0);
  return 0;
}
