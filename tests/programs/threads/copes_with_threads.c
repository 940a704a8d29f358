// The workers leave a hint unflushed. Recovery looks at it and computes it again: it copes, although the same program
// creates threads when it begins.
//@ lint: skip (the hint is never flushed, which lint cannot know to be harmless)
//@ prove: skip (three threads' worth of schedules)
//@ variant copes: -DCOPES
//@ check: clean
//@ variant used: -DUSED
//@ check: missing-flush at hint
#include <crashproof.h>
#include <pthread.h>
#include <stdlib.h>

PERSISTENT static struct {
  _Alignas(64) long hint;
  _Alignas(64) long count;
  _Alignas(64) long seen;
} pool;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *unused) {
  pthread_mutex_lock(&mutex);
  long count = pool.count + 1;
  pool.hint = count; // MARK: hint
  pool.count = count;
  crashproof_persist(&pool.count, sizeof pool.count);
  pthread_mutex_unlock(&mutex);
  return unused;
}

int main(void) {
  if (pool.count) {
    crashproof_assert(pool.count <= 2);
#ifdef USED
    pool.seen = pool.hint;
#endif
    crashproof_assert(pool.hint <= 2);
    pool.hint = pool.count;
    return 0;
  }
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
  return 0;
}
