// Cancellation of a thread that waits works; since it does not everywhere, the verdict says so.
//@ flags check: --schedules 4
//@ check: unknown (pthread_cancel)
//@ lint: unflushed-write at unflushed-write
//@ prove: unknown (calls `pthread_cancel`, which is not defined here)

#include <crashproof.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int cleaned;
static long *pm;

static void clean(void *unused) {
  (void)unused;
  cleaned++;
  pthread_mutex_unlock(&lock);
}

static void *wait_for_ever(void *unused) {
  pthread_mutex_lock(&lock);
  pthread_cleanup_push(clean, 0);
  for (;;) pthread_cond_wait(&never, &lock);
  pthread_cleanup_pop(0);
  return unused;
}

int main(void) {
  pm = crashproof_root(sizeof *pm);
  if (crashproof_crashes()) return 0;
  *pm = 1; // MARK: unflushed-write
  pthread_t thread;
  pthread_create(&thread, 0, wait_for_ever, 0);
  pthread_cancel(thread);
  void *value;
  pthread_join(thread, &value);
  crashproof_assert(value == PTHREAD_CANCELED && cleaned == 1);
  crashproof_assert(pthread_mutex_trylock(&lock) == 0);
  return 0;
}
