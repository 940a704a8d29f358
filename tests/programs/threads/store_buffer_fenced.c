// Sequentially consistent stores are exchanges, and fence.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
PERSISTENT long reached;
static atomic_int x, y;
static int a, b;
static void *left(void *unused) {
  atomic_store_explicit(&x, 1, memory_order_seq_cst);
  a = atomic_load_explicit(&y, memory_order_acquire);
  return unused;
}
static void *right(void *unused) {
  atomic_store_explicit(&y, 1, memory_order_seq_cst);
  b = atomic_load_explicit(&x, memory_order_acquire);
  return unused;
}
int main(void) {
  pthread_t l, r;
  pthread_create(&l, 0, left, 0);
  pthread_create(&r, 0, right, 0);
  pthread_join(l, 0);
  pthread_join(r, 0);


  crashproof_assert(a || b);
  reached = 1;
  crashproof_persist(&reached, sizeof reached);
  return 0;
}
void recover(void) {}
