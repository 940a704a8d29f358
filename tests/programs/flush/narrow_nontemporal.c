// x86 has no non-temporal store of one or two bytes: the hint is dropped, and a fence alone makes nothing durable.
//@ variant narrow: -DTYPE=char
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: refuted at claim-violated
//@ variant short: -DTYPE=short
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: refuted at claim-violated
//@ variant wide: -DTYPE=long
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant word: -DTYPE=int
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant widest: -DTYPE=__int128
//@ check: clean
//@ lint: clean
//@ prove: skip (no integers of more than 64 bits)
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT TYPE data __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));

void recover(void) {
  crashproof_assert(!done || data == 1); // MARK: claim-violated
}

int main(void) {
  if (crashproof_crashes()) {
    recover();
    return 0;
  }
  __builtin_nontemporal_store((TYPE)1, &data); // MARK: LOST
  _mm_sfence();
  done = 1;
  crashproof_persist(&done, sizeof done);
  return 0;
}
