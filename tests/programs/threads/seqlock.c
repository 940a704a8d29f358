// A sequence lock whose reader copies to persistent memory. The x86 keeps stores in order, so the writer needs no fence;
// but a reader that does not look at the counter again keeps halves.
//@ variant plain:
//@ check: recovery-fails-nothing-lost at keeps
//@ lint: skip (volatile data)
//@ prove: skip (a loop that waits)
//@ variant again: -DAGAIN
//@ check: clean
//@ lint: skip (volatile data)
//@ prove: skip (a loop that waits)
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
struct data {
  long one, two, valid;
} __attribute__((aligned(64)));
PERSISTENT struct data data;
static atomic_long counter, one, two;
static void *write_both(void *unused) {
  atomic_store_explicit(&counter, 1, memory_order_relaxed);
  atomic_store_explicit(&one, 1, memory_order_relaxed);
  atomic_store_explicit(&two, 1, memory_order_relaxed);
  atomic_store_explicit(&counter, 2, memory_order_relaxed);
  return unused;
}
static void *read_both(void *unused) {
  for (;;) {
    long before = atomic_load(&counter);
    if (before & 1) continue;
    long first = atomic_load(&one), second = atomic_load(&two);
#ifdef AGAIN
    if (atomic_load(&counter) != before) continue;
#endif
    data.one = first;
    data.two = second;
    data.valid = 1; // MARK: keeps
    crashproof_persist(&data, sizeof data);
    return unused;
  }
}
int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], 0, write_both, 0);
  pthread_create(&threads[1], 0, read_both, 0);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
void recover(void) {
  crashproof_assert(!data.valid || data.one == data.two);
}
