// A locked instruction is a fence, whatever memory it works on: the flush before it is waited for. A relaxed store is none.
//@ cflags: -mclwb
//@ variant rmw: -DRMW
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant exchange: -DEXCHANGE
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant failed-exchange: -DFAILED
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant store: -DSTORE
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant relaxed: -DRELAXED
//@ check: fails at LOST
//@ lint: missing-barrier at FLUSH
//@ lint: missing-barrier at LAST
//@ prove: refuted at claim-violated
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));
long counter; // Not static: stores to what nothing reads are left out by the optimizer.

void recover(void) {
  crashproof_assert(!done || data == 1); // MARK: claim-violated
}

static void wait_for_flushes(void) {
#if defined RMW
  __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
#elif defined EXCHANGE
  __atomic_exchange_n(&counter, 1, __ATOMIC_RELAXED);
#elif defined FAILED
  long expected = 7;
  __atomic_compare_exchange_n(&counter, &expected, 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#elif defined STORE
  __atomic_store_n(&counter, 1, __ATOMIC_SEQ_CST);
#else
  __atomic_store_n(&counter, 1, __ATOMIC_RELAXED);
#endif
}

int main(void) {
  if (crashproof_crashes()) {
    recover();
    return 0;
  }
  data = 1;        // MARK: LOST
  _mm_clwb(&data); // MARK: FLUSH
  wait_for_flushes();
  done = 1;
  _mm_clwb(&done); // MARK: LAST
  wait_for_flushes();
  return 0;
}
