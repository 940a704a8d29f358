// A retry loop that others make fail is not counted as rounds.
//@ flags prove: --unwind 1
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
PERSISTENT atomic_long counter __attribute__((aligned(64)));
static void *add(void *by) {
  long old = atomic_load(&counter);
  while (!atomic_compare_exchange_weak(&counter, &old, old + (long)by)) // MARK: unflushed-write
    ;
  return 0;
}
int main(void) {
  pthread_t threads[2];
  for (long i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, add, (void *)(i + 1));
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
  crashproof_assert(counter == 3);
  return 0;
}
void recover(void) { crashproof_assert(counter <= 3); }
