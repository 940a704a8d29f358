// A lock that is only tried may be held by another thread: whoever does without it then skips what it guards. That the thread
// has done something since the other one took the lock does not mean that it waited.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules of real runs)
//@ variant tried:
//@ check: recovery-fails-nothing-lost at stored
//@ variant waited: -DWAITED
//@ check: clean
#include <crashproof.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
PERSISTENT __attribute__((aligned(64))) long entry;
PERSISTENT __attribute__((aligned(64))) long count;
PERSISTENT __attribute__((aligned(64))) long other;

static void *look(void *unused) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  return unused;
}

static void *add(void *unused) {
  other = 1;
  crashproof_persist(&other, sizeof other);
#ifdef WAITED
  int taken = pthread_mutex_lock(&mutex) == 0;
#else
  int taken = pthread_mutex_trylock(&mutex) == 0;
#endif
  if (taken) {
    entry = 1;
    crashproof_persist(&entry, sizeof entry);
    pthread_mutex_unlock(&mutex);
  }
  count = 1; // MARK: stored
  crashproof_persist(&count, sizeof count);
  return unused;
}

int main(void) {
  if (crashproof_crashes()) {
    crashproof_assert(!count || entry);
    return 0;
  }
  pthread_t one, two;
  pthread_create(&one, 0, look, 0);
  pthread_create(&two, 0, add, 0);
  pthread_join(one, 0);
  pthread_join(two, 0);
  return 0;
}
