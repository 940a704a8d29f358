#include <crashproof.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ready;
PERSISTENT long done;

static void *work(void *unused) {
  pthread_mutex_lock(&mutex);
  ready = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
  return unused;
}

int main(void) {
  if (crashproof_crashes())
    return 0;
  pthread_t worker;
  pthread_create(&worker, 0, work, 0);
  pthread_mutex_lock(&mutex);
  while (!ready)
    pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  done = 1;
  crashproof_persist(&done, sizeof done);
  pthread_join(worker, 0);
  return 0;
}
