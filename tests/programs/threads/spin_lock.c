// Attempts at a lock that is taken store what is there already: they need no bound.
//@ flags prove: --unwind 2
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
PERSISTENT long first __attribute__((aligned(64)));
PERSISTENT long second __attribute__((aligned(64)));
static atomic_flag lock = ATOMIC_FLAG_INIT;
static void *add(void *unused) {
  while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
    __builtin_ia32_pause();
  long value = first + 1;
  first = value;
  crashproof_persist(&first, sizeof first);
  second = value;
  crashproof_persist(&second, sizeof second);
  atomic_flag_clear_explicit(&lock, memory_order_release);
  return unused;
}
int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, add, 0);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
  crashproof_assert(first == 2 && second == 2);
  return 0;
}
void recover(void) { crashproof_assert(first == second || first == second + 1); }
