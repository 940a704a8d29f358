#include <crashproof.h>
#include <pthread.h>

PERSISTENT long hits;

static void *work(void *unused) {
  hits++; /* the other thread does the same, at any time */
  crashproof_persist(&hits, sizeof hits);
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
