// Volatile memory is TSO: both may read 0. With a fence one may not (see store_buffer_fenced.c).
//@ check: fails-under-schedule
//@ lint: vacuous
//@ prove: refuted at claim (a || b)
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
static atomic_int x, y;
static int a, b;
static void *left(void *unused) {
  atomic_store_explicit(&x, 1, memory_order_release);
  a = atomic_load_explicit(&y, memory_order_acquire);
  return unused;
}
static void *right(void *unused) {
  atomic_store_explicit(&y, 1, memory_order_release);
  b = atomic_load_explicit(&x, memory_order_acquire);
  return unused;
}
int main(void) {
  pthread_t l, r;
  pthread_create(&l, 0, left, 0);
  pthread_create(&r, 0, right, 0);
  pthread_join(l, 0);
  pthread_join(r, 0);


  crashproof_assert(a || b); // MARK: claim
  return 0;
}
void recover(void) {}
