// A masked vector store is a store: without a flush what it stored is lost.
//@ cflags: -mavx2
//@ prove: unknown
//@ variant flushed: -DFLUSH
//@ check: clean
//@ lint: clean
//@ variant lost:
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT long long data[8] __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));

void recover(void) {
  crashproof_assert(!done || data[0] == 1);
}

int main(void) {
  if (crashproof_crashes()) {
    recover();
    return 0;
  }
  _mm256_maskstore_epi64(data, _mm256_set1_epi64x(-1), _mm256_set1_epi64x(1)); // MARK: LOST
#ifdef FLUSH
  crashproof_persist(data, sizeof data);
#endif
  done = 1;
  crashproof_persist(&done, sizeof done);
  return 0;
}
