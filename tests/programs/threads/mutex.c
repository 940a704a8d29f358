// A lock keeps two increments apart, each with its shadow.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
PERSISTENT struct {
  long value, copy;
} counter __attribute__((aligned(64)));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *add(void *by) {
  pthread_mutex_lock(&lock);
  counter.value += (long)by; // MARK: unflushed-write
  counter.copy += (long)by; // MARK: unflushed-write-2
  pthread_mutex_unlock(&lock);
  return 0;
}
int main(void) {
  pthread_t threads[2];
  for (long i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, add, (void *)(i + 1));
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
  crashproof_assert(counter.value == 3 && counter.copy == 3);
  return 0;
}
void recover(void) {
  crashproof_assert(counter.value == counter.copy || counter.value == counter.copy + 1 ||
                    counter.value == counter.copy + 2);
}
