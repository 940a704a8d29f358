// Two threads that store under a lock in PM: which one comes second is not decided by the lock, wherever it lies.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules of real runs)
//@ variant mutex: -DMUTEX
//@ check: fails-under-schedule at mutex
//@ variant tried: -DTRIED
//@ check: fails-under-schedule at mutex
//@ variant spin_lock: -DSPIN
//@ check: fails-under-schedule at spin_lock
//@ variant rw_lock: -DRW
//@ check: fails-under-schedule at rw_lock
//@ variant semaphore: -DSEMAPHORE
//@ check: fails-under-schedule at semaphore
#include <crashproof.h>
#include <pthread.h>
#include <semaphore.h>

#if defined(MUTEX) || defined(TRIED)
typedef pthread_mutex_t lock_type;
static void init(lock_type *l) { pthread_mutex_init(l, 0); }
#ifdef TRIED
static void take(lock_type *l) { while (pthread_mutex_trylock(l)) ; }
#else
static void take(lock_type *l) { pthread_mutex_lock(l); }
#endif
static void give(lock_type *l) { pthread_mutex_unlock(l); } // MARK: mutex
#elif defined(SPIN)
typedef pthread_spinlock_t lock_type;
static void init(lock_type *l) { pthread_spin_init(l, 0); }
static void take(lock_type *l) { pthread_spin_lock(l); }
static void give(lock_type *l) { pthread_spin_unlock(l); } // MARK: spin_lock
#elif defined(RW)
typedef pthread_rwlock_t lock_type;
static void init(lock_type *l) { pthread_rwlock_init(l, 0); }
static void take(lock_type *l) { pthread_rwlock_wrlock(l); }
static void give(lock_type *l) { pthread_rwlock_unlock(l); } // MARK: rw_lock
#else
typedef sem_t lock_type;
static void init(lock_type *l) { sem_init(l, 0, 1); }
static void take(lock_type *l) { sem_wait(l); }
static void give(lock_type *l) { sem_post(l); } // MARK: semaphore
#endif

struct pool {
  lock_type lock;
  _Alignas(64) long last;
};
static struct pool *pool;

static void *put(void *number) {
  take(&pool->lock);
  pool->last = (long)number;
  crashproof_persist(&pool->last, sizeof pool->last);
  give(&pool->lock);
  return 0;
}

int main(void) {
  pool = crashproof_root(sizeof *pool);
  if (crashproof_crashes()) {
    crashproof_assert(pool->last <= 2);
    return 0;
  }
  init(&pool->lock);
  pthread_t one, two;
  pthread_create(&one, 0, put, (void *)1);
  pthread_create(&two, 0, put, (void *)2);
  pthread_join(one, 0);
  pthread_join(two, 0);
  crashproof_assert(pool->last == 2);
  return 0;
}
