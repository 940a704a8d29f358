// What functions of libpmem promise is the same to every engine.
//@ variant persist: -DPERSIST
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant copy: -DCOPY
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant flush-and-drain: -DFLUSH_AND_DRAIN
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant no-flush: -DNO_FLUSH
//@ check: fails at UNFLUSHED
//@ lint: unflushed-write at UNFLUSHED
//@ prove: refuted
//@ variant nothing:
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: refuted
#include <crashproof.h>
#include <libpmem.h>

PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));

void recover(void) {
  crashproof_assert(!done || data == 1);
}

int main(void) {
  if (crashproof_crashes()) {
    recover();
    return 0;
  }
#if defined COPY
  long one = 1;
  pmem_memcpy_persist(&data, &one, sizeof data);
#elif defined NO_FLUSH
  long one = 1;
  pmem_memcpy(&data, &one, sizeof data, PMEM_F_MEM_NOFLUSH); // MARK: UNFLUSHED
#else
  data = 1; // MARK: LOST
#endif
#if defined PERSIST
  pmem_persist(&data, sizeof data);
#elif defined FLUSH_AND_DRAIN
  pmem_flush(&data, sizeof data);
  pmem_drain();
#endif
  done = 1;
  pmem_persist(&done, sizeof done);
  return 0;
}
