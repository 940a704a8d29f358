// A locked instruction waits for flushes, whatever memory it works on.
//@ variant RMW: -DFENCE=__atomic_fetch_add(&counter,1,__ATOMIC_RELAXED)
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant EXCHANGE: -DFENCE=__atomic_exchange_n(&counter,1,__ATOMIC_RELAXED)
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant STORE: -DFENCE=__atomic_store_n(&counter,1,__ATOMIC_SEQ_CST)
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant CAS: -DFENCE=__atomic_compare_exchange_n(&counter,&old,1,0,__ATOMIC_RELAXED,__ATOMIC_RELAXED)
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant RELEASE: -DFENCE=__atomic_store_n(&counter,1,__ATOMIC_RELEASE)
//@ check: recovery-fails at recovery-fails
//@ lint: publish-before-persist at recovery-fails
//@ prove: refuted at claim-violated
//@ variant SIGNAL: -DFENCE=__atomic_signal_fence(__ATOMIC_SEQ_CST)
//@ check: recovery-fails at recovery-fails
//@ lint: publish-before-persist at recovery-fails
//@ prove: refuted at claim-violated

#include <assert.h>
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT struct {
  _Alignas(64) int value;
  _Alignas(64) int committed;
} p;

int counter; // others may look at it: the compiler keeps what is stored
static int old;

int main(void) {
  if (p.committed) {
    assert(p.value == 1); // MARK: claim-violated
    return 0;
  }
  p.value = 1; // MARK: recovery-fails
  _mm_clwb(&p.value);
  FENCE;
  p.committed = 1;
  _mm_clwb(&p.committed);
  _mm_sfence();
  return old > 1;
}
