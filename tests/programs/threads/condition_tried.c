// Who only looks after a lock, though, can tell that it was taken for a moment by a thread that goes on waiting.
//@ check: fails-under-schedule (fails an assertion)
//@ lint: vacuous
//@ prove: refuted at claim (failures < 2)
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ready;
static atomic_int waiting;
static void *wait(void *unused) {
  pthread_mutex_lock(&lock);
  waiting = 1;
  while (!ready)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, wait, 0);
  while (!waiting)
    ;
  pthread_mutex_lock(&lock); /* so it waits now */
  pthread_mutex_unlock(&lock);
  int failures = 0;
  for (int i = 0; i < 2; i++)
    if (pthread_mutex_trylock(&lock) == 0)
      pthread_mutex_unlock(&lock);
    else
      failures++;
  crashproof_assert(failures < 2); // MARK: claim
  ready = 1;
  return 0;
}
void recover(void) {}
