// Two threads store to different bytes of one line: it keeps them in the order in which they came, so that matters.
//@ variant plain:
//@ check: recovery-fails at first
//@ lint: skip (order between threads)
//@ prove: refuted at claim
//@ variant apart: -DAPART
//@ check: fails at first
//@ lint: skip (order between threads)
//@ prove: refuted at claim
#include <crashproof.h>
#include <pthread.h>
struct data {
  long first;
#ifdef APART
  char apart[64 - sizeof(long)];
#endif
  long second;
} __attribute__((aligned(64)));
PERSISTENT struct data data;
static void *store_first(void *unused) {
  data.first = 1; // MARK: first
  return unused;
}
static void *store_second(void *unused) {
  data.second = 1; // MARK: second
  return unused;
}
int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], 0, store_first, 0);
  pthread_create(&threads[1], 0, store_second, 0);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
void recover(void) {
  crashproof_assert(!data.second || data.first); // MARK: claim
}
