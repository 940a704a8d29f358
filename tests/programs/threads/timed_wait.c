// A condition that is waited for until a moment: whether it or the moment comes first is up to the schedule.
//@ variant plain:
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (it has no clock)
//@ variant flushed: -DFLUSHED
//@ check: clean
//@ lint: clean
//@ prove: skip (it has no clock)
#include <crashproof.h>
#include <pthread.h>
#include <time.h>
struct data {
  long gave_up;
  char apart[64 - sizeof(long)];
  long value;
};
PERSISTENT struct data data;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready;
static void *get_ready(void *unused) {
  pthread_mutex_lock(&mutex);
  ready = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  return unused;
}
static void *wait_for_it(void *unused) {
  struct timespec moment;
  clock_gettime(CLOCK_REALTIME, &moment);
  moment.tv_sec += 3600;
  pthread_mutex_lock(&mutex);
  int gave_up = 0;
  while (!ready && !gave_up) gave_up = pthread_cond_timedwait(&condition, &mutex, &moment) != 0;
  pthread_mutex_unlock(&mutex);
  if (!gave_up) return unused;
  data.value = 42; // MARK: lost
#ifdef FLUSHED
  crashproof_persist(&data.value, sizeof data.value);
#endif
  data.gave_up = 1;
  crashproof_persist(&data.gave_up, sizeof data.gave_up);
  return unused;
}
int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], 0, wait_for_it, 0);
  pthread_create(&threads[1], 0, get_ready, 0);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
void recover(void) {
  crashproof_assert(!data.gave_up || data.value == 42);
}
