// Three threads add to one counter, four times each. That none is lost is an argument about pigeons and holes.
//@ check: skip (millions of schedules)
//@ lint: skip (written for prove)
//@ prove: proved
#include <assert.h>
#include <crashproof.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
enum { K = 4, T = 3 };
PERSISTENT struct {
  _Atomic long counter;
  char pad[56];
  struct {
    long done;
    char pad[56];
  } t[T];
} root __attribute__((aligned(64)));
static void persist(void *p) {
  _mm_clflush(p);
  _mm_sfence();
}
static void *work(void *arg) {
  long me = (long)arg;
  for (int i = 0; i < K; i++) {
    atomic_fetch_add(&root.counter, 1);
    persist(&root.counter);
    root.t[me].done = i + 1;
    persist(&root.t[me].done);
  }
  return 0;
}
void recover(void) {
  long sum = 0;
  for (int i = 0; i < T; i++)
    sum += root.t[i].done;
  assert(root.counter >= sum);
}
int main(void) {
  pthread_t t[T];
  for (long i = 0; i < T; i++)
    pthread_create(&t[i], 0, work, (void *)i);
  for (long i = 0; i < T; i++)
    pthread_join(t[i], 0);
  assert(root.counter == K * T);
  return 0;
}
