// Every kind of pthread object, used as its manual says.
//@ flags check: --schedules 12
//@ check: clean
//@ lint: clean, no warnings
//@ prove: unknown (`pthread_mutexattr_setrobust` at)

#define _GNU_SOURCE
#include <crashproof.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define check(condition) crashproof_assert(condition)
#define WORKERS 3

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t static_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t recursive, checked, robust;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t semaphore;
static int once_ran, destroyed, serial, under_mutex, under_spin, under_rw, tokens;
static long *pm;

static struct timespec in(long nanoseconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  now.tv_nsec += nanoseconds;
  now.tv_sec += now.tv_nsec / 1000000000;
  now.tv_nsec %= 1000000000;
  return now;
}

static void count_once(void) { once_ran++; }
static void destroy(void *value) {
  check(value == &key);
  destroyed++;
  __atomic_fetch_add(pm, 1, __ATOMIC_SEQ_CST);
}

static void alone(int *inside) {
  check(++*inside == 1);
  __atomic_fetch_add(pm, 1, __ATOMIC_SEQ_CST);
  crashproof_persist(pm, sizeof *pm);
  check(--*inside == 0);
}

static void *work(void *argument) {
  pthread_setspecific(key, &key);
  pthread_once(&once, count_once);
  check(once_ran == 1);

  pthread_mutex_lock(&plain);
  alone(&under_mutex);
  pthread_mutex_unlock(&plain);

  pthread_mutex_lock(&recursive);
  pthread_mutex_lock(&recursive);
  check(pthread_mutex_trylock(&recursive) == 0);
  for (int i = 0; i < 3; i++) check(pthread_mutex_unlock(&recursive) == 0);
  pthread_mutex_lock(&static_recursive);
  pthread_mutex_lock(&static_recursive);
  pthread_mutex_unlock(&static_recursive);
  pthread_mutex_unlock(&static_recursive);

  check(pthread_mutex_lock(&checked) == 0);
  check(pthread_mutex_lock(&checked) == EDEADLK);
  check(pthread_mutex_unlock(&checked) == 0);

  pthread_spin_lock(&spin);
  alone(&under_spin);
  pthread_spin_unlock(&spin);

  pthread_rwlock_wrlock(&rw);
  alone(&under_rw);
  pthread_rwlock_unlock(&rw);
  pthread_rwlock_rdlock(&rw);
  check(pthread_rwlock_tryrdlock(&rw) == 0);
  check(pthread_rwlock_trywrlock(&rw) == EBUSY);
  pthread_rwlock_unlock(&rw);
  pthread_rwlock_unlock(&rw);

  int result = pthread_barrier_wait(&barrier);
  if (result == PTHREAD_BARRIER_SERIAL_THREAD) serial++;
  else check(result == 0);

  sem_wait(&semaphore);
  tokens++;
  if (argument) pthread_exit(argument);
  return (void *)7;
}

static void *die_with_lock(void *unused) {
  pthread_mutex_lock(&robust);
  return unused;
}

static void *sleep_a_little(void *unused) {
  usleep(1000);
  return unused;
}

int main(void) {
  pm = crashproof_root(sizeof *pm);
  if (crashproof_crashes()) return 0;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&recursive, &attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&checked, &attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&robust, &attributes);
  pthread_spin_init(&spin, 0);
  pthread_barrier_init(&barrier, 0, WORKERS);
  pthread_key_create(&key, destroy);
  sem_init(&semaphore, 0, 1);
  check(pthread_mutex_unlock(&checked) == EPERM);

  pthread_t workers[WORKERS];
  for (long i = 0; i < WORKERS; i++) check(pthread_create(&workers[i], 0, work, (void *)i) == 0);
  for (int i = 1; i < WORKERS; i++) sem_post(&semaphore);
  for (long i = 0; i < WORKERS; i++) {
    void *value;
    check(pthread_join(workers[i], &value) == 0);
    check(value == (i ? (void *)i : (void *)7));
  }
  check(pthread_join(pthread_self(), 0) == EDEADLK);
  check(once_ran == 1 && destroyed == WORKERS && serial == 1 && tokens == WORKERS);
  int left;
  check(sem_getvalue(&semaphore, &left) == 0 && left == 0);
  check(sem_trywait(&semaphore) == -1 && errno == EAGAIN);

  /* Timeouts pass without anybody waiting for real. */
  struct timespec soon = in(500000000);
  check(sem_timedwait(&semaphore, &soon) == -1 && errno == ETIMEDOUT);
  soon = in(500000000);
  pthread_mutex_lock(&plain);
  check(pthread_cond_timedwait(&condition, &plain, &soon) == ETIMEDOUT);
  soon = in(500000000);
  check(pthread_mutex_timedlock(&plain, &soon) == ETIMEDOUT);
  check(pthread_mutex_destroy(&plain) == EBUSY);
  pthread_mutex_unlock(&plain);
  sleep(3600);

  /* Waiting for the end of a thread, with and without patience. */
  pthread_t sleeper;
  pthread_create(&sleeper, 0, sleep_a_little, 0);
  while (pthread_tryjoin_np(sleeper, 0) == EBUSY) sched_yield();
  pthread_create(&sleeper, 0, sleep_a_little, 0);
  soon = in(1000000000);
  check(pthread_timedjoin_np(sleeper, 0, &soon) == 0);
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_create(&sleeper, &detached, sleep_a_little, 0);
  check(pthread_join(sleeper, 0) == EINVAL);

  /* The owner of a robust mutex dies. */
  pthread_t dying;
  pthread_create(&dying, 0, die_with_lock, 0);
  pthread_join(dying, 0);
  check(pthread_mutex_lock(&robust) == EOWNERDEAD);
  check(pthread_mutex_consistent(&robust) == 0);
  check(pthread_mutex_unlock(&robust) == 0);
  check(pthread_mutex_lock(&robust) == 0);
  pthread_mutex_unlock(&robust);

  /* Names. */
  sem_t *named = sem_open("/crashproof-test", O_CREAT | O_EXCL, 0600, 2);
  check(named != SEM_FAILED && sem_wait(named) == 0 && sem_wait(named) == 0);
  check(sem_open("/crashproof-test", O_CREAT | O_EXCL, 0600, 2) == SEM_FAILED && errno == EEXIST);
  sem_close(named);
  sem_unlink("/crashproof-test");
  check(sem_open("/crashproof-test", 0) == SEM_FAILED && errno == ENOENT);

  /* A lock in persistent memory. */
  pthread_mutex_t *lock = crashproof_alloc(sizeof *lock);
  check(pthread_mutex_lock(lock) == 0 && pthread_mutex_trylock(lock) == EBUSY);
  check(pthread_mutex_unlock(lock) == 0);
  usleep(2000);
  return 0;
}
