#include <crashproof.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
PERSISTENT long hits;

static void *work(void *unused) {
  pthread_mutex_lock(&lock);
  hits++;
  crashproof_persist(&hits, sizeof hits);
  pthread_mutex_unlock(&lock);
  return unused;
}

int main(void) {
  if (crashproof_crashes())
    return 0;
  pthread_t one, two;
  pthread_create(&one, 0, work, 0);
  pthread_create(&two, 0, work, 0);
  pthread_join(one, 0);
  pthread_join(two, 0);
  return 0;
}
