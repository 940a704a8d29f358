// Signals between threads, cancellation, a thread that never ends: explored, or UNKNOWN with the call named.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules)
//@ variant kill: -DKILL
//@ check: unknown (pthread_kill)
//@ variant cancel: -DCANCEL
//@ check: unknown (pthread_cancel)
//@ variant busy: -DBUSY
//@ check: unknown (steps, too many for all schedules)
//@ variant pool: -DPOOL
//@ check: clean
#include <crashproof.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_int got;
static atomic_long rounds;
static int jobs;

static void put(long *to) {
  *to = 1;
  crashproof_persist(to, sizeof *to);
}

static void handler(int number) {
  (void)number;
  atomic_store(&got, 1);
}

static void ended(void *unused) {
  (void)unused;
  put(&done);
  pthread_mutex_unlock(&lock);
}

static void *work(void *unused) {
#ifdef KILL
  while (!atomic_load(&got))
    sched_yield();
  put(&done);
#elif defined(CANCEL)
  pthread_mutex_lock(&lock);
  pthread_cleanup_push(ended, 0);
  for (;;)
    pthread_cond_wait(&changed, &lock);
  pthread_cleanup_pop(0);
#elif defined(BUSY)
  for (;;)
    atomic_fetch_add(&rounds, 1);
#else
  for (;;) { // a thread pool: the process ends while its threads wait
    pthread_mutex_lock(&lock);
    while (!jobs)
      pthread_cond_wait(&changed, &lock);
    jobs--;
    put(&data);
    put(&done);
    pthread_mutex_unlock(&lock);
  }
#endif
  return unused;
}

int main(void) {
  if (crashproof_crashes()) {
    crashproof_assert(!done || data);
    return 0;
  }
  (void)handler, (void)ended, (void)rounds, (void)jobs;
  pthread_t worker;
  signal(SIGUSR1, handler);
  pthread_create(&worker, 0, work, 0);
#ifdef POOL
  pthread_mutex_lock(&lock);
  jobs = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
  return 0;
#else
  put(&data);
#ifdef KILL
  pthread_kill(worker, SIGUSR1);
#elif defined(CANCEL)
  pthread_cancel(worker);
#elif defined(BUSY)
  put(&done);
  return 0;
#endif
  pthread_join(worker, 0);
  return 0;
#endif
}
