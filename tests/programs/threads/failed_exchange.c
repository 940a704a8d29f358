// A locked instruction that leaves what it finds reads all the same: it comes before or after the store of another thread.
//@ variant plain:
//@ check: recovery-fails at lost
//@ lint: skip (order between threads)
//@ prove: refuted at claim
//@ variant add: -DADD
//@ check: recovery-fails at added
//@ lint: skip (order between threads)
//@ prove: refuted at claim
#include <crashproof.h>
#include <pthread.h>
struct data {
  long value;
  char apart[64 - sizeof(long)];
  long seen;
} __attribute__((aligned(64)));
PERSISTENT struct data data;
static void *look(void *unused) {
#ifdef ADD
  long value = __sync_fetch_and_add(&data.value, 0); // MARK: added
#else
  long value = __sync_val_compare_and_swap(&data.value, 5, 6);
#endif
  if (value == 1) {
    data.seen = 1;
    crashproof_persist(&data.seen, sizeof data.seen);
  }
  return unused;
}
static void *store(void *unused) {
  __atomic_store_n(&data.value, 1, __ATOMIC_RELAXED); // MARK: lost
  return unused;
}
int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], 0, look, 0);
  pthread_create(&threads[1], 0, store, 0);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
void recover(void) {
  crashproof_assert(!data.seen || data.value == 1); // MARK: claim
}
