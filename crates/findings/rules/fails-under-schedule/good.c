#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

PERSISTENT _Atomic long counter;

static void *count(void *unused) {
  atomic_fetch_add(&counter, 1);
  return unused;
}

int main(void) {
  if (crashproof_crashes())
    return 0;
  pthread_t one, two;
  pthread_create(&one, 0, count, 0);
  pthread_create(&two, 0, count, 0);
  pthread_join(one, 0);
  pthread_join(two, 0);
  crashproof_assert(atomic_load(&counter) == 2);
  return 0;
}
