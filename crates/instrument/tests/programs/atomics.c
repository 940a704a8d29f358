// Atomic accesses and every kind of read-modify-write, on PM and on volatile memory.
#include "test.h"
#include <stdatomic.h>

struct cells { _Atomic unsigned char c; _Atomic short s; _Atomic int i; _Atomic long l; _Atomic(char *) p; _Atomic float f; };

__attribute__((noinline)) static void all(struct cells *x) {
  atomic_store_explicit(&x->l, 1, memory_order_relaxed);
  atomic_store_explicit(&x->l, 2, memory_order_release);
  atomic_store(&x->l, 3); // an xchg
  CHECK(atomic_load_explicit(&x->l, memory_order_acquire) == 3);
  CHECK(atomic_fetch_add(&x->i, 5) == 0);
  CHECK(atomic_fetch_sub(&x->i, 1) == 5);
  CHECK(atomic_fetch_or(&x->i, 8) == 4);
  CHECK(atomic_fetch_and(&x->i, 12) == 12);
  CHECK(atomic_fetch_xor(&x->i, 1) == 12);
  CHECK(atomic_exchange(&x->s, 9) == 0);
  CHECK(__atomic_fetch_nand((unsigned char *)&x->c, 3, __ATOMIC_SEQ_CST) == 0); // a compare-exchange loop
  CHECK(__atomic_fetch_max((int *)&x->i, 100, __ATOMIC_SEQ_CST) == 13);
  char *null = 0;
  CHECK(atomic_compare_exchange_strong(&x->p, &null, (char *)x));
  CHECK(!atomic_compare_exchange_strong(&x->p, &null, (char *)0));
  CHECK(null == (char *)x);
  x->f += 1.5f;
  CHECK(x->f == 1.5f);
}

int main(void) {
  static struct cells in_dram;
  all((struct cells *)test_pm());
  test_say("volatile memory:");
  all(&in_dram);
  return 0;
}
