// Waiting for a condition is waiting, however often the thread wakes up.
// It polls, so there is no end to its schedules.
//@ flags prove: --unwind 2
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
//@ variant seeds:
//@ flags check: --schedules 4 --strategy random
//@ check: clean
//@ variant plain:
//@ check: unknown (remain)
#include <crashproof.h>
#include <pthread.h>
PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long seen __attribute__((aligned(64)));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int ready;
static void *produce(void *unused) {
  data = 7;
  crashproof_persist(&data, sizeof data);
  pthread_mutex_lock(&lock);
  ready = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
  return unused;
}
static void *poll(void *unused) {
  for (int done = 0; !done;) {
    pthread_mutex_lock(&lock);
    done = ready;
    pthread_mutex_unlock(&lock);
  }
  crashproof_assert(data == 7);
  return unused;
}
int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], 0, produce, 0);
  pthread_create(&threads[1], 0, poll, 0);
  pthread_mutex_lock(&lock);
  while (!ready)
    pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  seen = data; // MARK: unflushed-write
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
void recover(void) { crashproof_assert(seen == 0 || data == 7); }
