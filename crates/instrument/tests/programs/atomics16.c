// Sixteen-byte atomics.
// flags: -mcx16
// needs: cx16
#include "test.h"

typedef unsigned __int128 u128;

__attribute__((noinline)) static void all(u128 *p) {
  u128 expected = 0, desired = ((u128)1 << 64) | 2;
  CHECK(__atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  CHECK(!__atomic_compare_exchange_n(p, &expected, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  CHECK(expected == desired);
  CHECK(__atomic_exchange_n(p, 5, __ATOMIC_SEQ_CST) == desired);
  CHECK(__atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST) == 5);
  __atomic_store_n(p, 7, __ATOMIC_SEQ_CST);
  CHECK(__atomic_load_n(p, __ATOMIC_SEQ_CST) == 7);
}

int main(void) {
  all((u128 *)test_pm());
  return 0;
}
