// What initializing a lock stores is there after a crash, if it is flushed.
//@ lint: skip (what locks hold is not lint's business)
//@ prove: skip (check is asked; prove has locks of its own)
//@ variant good: -DGOOD
//@ check: clean
//@ variant plain:
//@ check: recovery-fails at recovery-fails
//@ check: recovery-fails at semaphore
#include <crashproof.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

struct root {
  sem_t semaphore;
  pthread_barrier_t barrier;
  pthread_mutex_t mutex;
  long ready;
};

static int differs(const void *one, const void *other, size_t bytes) { return memcmp(one, other, bytes) != 0; }

static void init(struct root *r) {
  sem_init(&r->semaphore, 0, 3); // MARK: semaphore
  pthread_barrier_init(&r->barrier, NULL, 2); // MARK: recovery-fails
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&r->mutex, &kind);
}

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (crashproof_crashes()) {
    if (r->ready) {
      static struct root again;
      pthread_mutexattr_t kind;
      pthread_mutexattr_init(&kind);
      pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
      pthread_mutex_init(&again.mutex, &kind);
      int value = 0;
      sem_getvalue(&r->semaphore, &value);
      crashproof_assert(value == 3);
      crashproof_assert(((unsigned *)&r->barrier)[2] == 2);
      crashproof_assert(!differs(&r->mutex, &again.mutex, sizeof again.mutex));
      crashproof_assert(pthread_mutex_lock(&r->mutex) == 0 && pthread_mutex_lock(&r->mutex) == 0);
    }
    return 0;
  }
  init(r);
#ifdef GOOD
  crashproof_persist(r, sizeof *r);
#endif
  r->ready = 1;
  crashproof_persist(&r->ready, sizeof r->ready);
  return 0;
}
