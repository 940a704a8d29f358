#include <crashproof.h>
#include <pthread.h>

static PERSISTENT long counter;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *count(void *unused) {
  pthread_mutex_lock(&lock);
  crashproof_epoch_begin();
  counter = counter + 1;
  crashproof_flush(&counter, sizeof counter);
  crashproof_epoch_end();
  crashproof_drain();
  pthread_mutex_unlock(&lock);
  return unused;
}

int main(void) {
  pthread_t other;
  pthread_create(&other, NULL, count, NULL);
  count(NULL);
  pthread_join(other, NULL);
  return 0;
}
