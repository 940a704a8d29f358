//@ cflags: -O1
//@ lint: skip (a question about what recovery reads)
//@ prove: skip (a question about what recovery reads)
//@ variant SEQ_CST: -DSEQ_CST
//@ check: clean
//@ variant RELEASE: -DRELEASE
//@ check: clean
//@ variant BUILTIN: -DBUILTIN
//@ check: clean
//@ variant UNUSED_EXCHANGE: -DUNUSED_EXCHANGE
//@ check: clean
//@ variant ASSEMBLY: -DASSEMBLY
//@ check: clean
//@ variant EXCHANGE: -DEXCHANGE
//@ check: missing-flush at lost
// Recovery overwrites with an atomic store what may have been lost. A store reads nothing, however it is ordered: x86
// compiles a sequentially consistent one to `xchg`, whose old value nobody uses. An exchange whose result the program
// uses does read.
#include <crashproof.h>
#include <stdatomic.h>
#include <stdint.h>

PERSISTENT union {
  _Atomic uint64_t at;
  uint64_t plain;
} __attribute__((aligned(64))) x, y;

int main(void) {
  if (!crashproof_crashes()) {
    x.plain = 1; /* MARK: lost */
    y.plain = 1;
    crashproof_persist(&y, 8);
    return 0;
  }
#if defined SEQ_CST
  atomic_store(&x.at, 2);
#elif defined RELEASE
  atomic_store_explicit(&x.at, 2, memory_order_release);
#elif defined BUILTIN
  __atomic_store_n(&x.plain, 2, __ATOMIC_SEQ_CST);
#elif defined UNUSED_EXCHANGE
  atomic_exchange(&x.at, 2);
#elif defined ASSEMBLY
  __asm__ volatile("movq %1, %0" : "=m"(x.plain) : "r"(2L));
#else
  volatile uint64_t old = atomic_exchange(&x.at, 2);
  (void)old;
#endif
  volatile uint64_t survived = y.plain;
  (void)survived;
  return 0;
}
