// A lock in persistent memory that is held when the power fails is held afterwards, unless it is initialized again. That it is
// lost is no mistake: then it is free.
//@ lint: skip (what locks hold is not lint's business)
//@ prove: skip (check is asked; prove has locks of its own)
//@ variant mutex: -DMUTEX
//@ check: recovery-fails-nothing-lost at taken
//@ variant mutex-again: -DMUTEX -DAGAIN
//@ check: clean
//@ variant recursive: -DRECURSIVE
//@ check: recovery-fails-nothing-lost at taken
//@ variant rwlock: -DRWLOCK
//@ check: recovery-fails-nothing-lost at taken
//@ variant rwlock-again: -DRWLOCK -DAGAIN
//@ check: clean
//@ variant spin: -DSPIN
//@ check: recovery-fails-nothing-lost at taken
//@ variant spin-again: -DSPIN -DAGAIN
//@ check: clean
//@ variant semaphore: -DSEMAPHORE
//@ check: recovery-fails-nothing-lost at taken
//@ variant semaphore-again: -DSEMAPHORE -DAGAIN
//@ check: clean
#include <crashproof.h>
#include <pthread.h>
#include <semaphore.h>

#if defined MUTEX || defined RECURSIVE
typedef pthread_mutex_t lock_type;
#define LOCK pthread_mutex_lock
#define UNLOCK pthread_mutex_unlock
static void init(lock_type *lock) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
#ifdef RECURSIVE
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
#endif
  pthread_mutex_init(lock, &kind);
}
#elif defined RWLOCK
typedef pthread_rwlock_t lock_type;
#define LOCK pthread_rwlock_wrlock
#define UNLOCK pthread_rwlock_unlock
static void init(lock_type *lock) { pthread_rwlock_init(lock, NULL); }
#elif defined SPIN
typedef pthread_spinlock_t lock_type;
#define LOCK pthread_spin_lock
#define UNLOCK pthread_spin_unlock
static void init(lock_type *lock) { pthread_spin_init(lock, PTHREAD_PROCESS_PRIVATE); }
#else
typedef sem_t lock_type;
#define LOCK sem_wait
#define UNLOCK sem_post
static void init(lock_type *lock) { sem_init(lock, 0, 1); }
#endif

struct root {
  _Alignas(64) lock_type lock;
  _Alignas(64) long count;
  long ready;
};

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
#ifdef AGAIN
  init(&r->lock);
#else
  if (!r->ready) {
    init(&r->lock);
    crashproof_persist(&r->lock, sizeof r->lock);
    r->ready = 1;
    crashproof_persist(&r->ready, sizeof r->ready);
  }
#endif
  LOCK(&r->lock); // MARK: taken
  r->count++;
  crashproof_persist(&r->count, sizeof r->count); // MARK: recovery-fails-nothing-lost
  UNLOCK(&r->lock);
  return 0;
}
