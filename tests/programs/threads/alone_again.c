// A thread that is alone again after others under several schedules: what it stores is there at once.
//@ check: clean
//@ lint: clean
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
struct data {
  long last, copy;
};
PERSISTENT struct data data __attribute__((aligned(64)));
static atomic_long last, copy;
static void *store(void *number) {
  atomic_store(&last, (long)number);
  return number;
}
int main(void) {
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, store, (void *)(i + 1));
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  atomic_store_explicit(&copy, atomic_load(&last), memory_order_relaxed);
  data.last = atomic_load(&last);
  crashproof_assert(atomic_load_explicit(&copy, memory_order_relaxed) == data.last && data.last != 0);
  data.copy = data.last;
  crashproof_persist(&data, sizeof data);
  return 0;
}
void recover(void) {
  crashproof_assert(data.copy == 0 || data.copy == data.last);
}
