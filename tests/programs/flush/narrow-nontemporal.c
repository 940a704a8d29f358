// A non-temporal store of one or two bytes is a plain store: x86-64 has no such instruction.
//@ variant BYTE: -DTYPE=char
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: refuted
//@ variant SHORT: -DTYPE=short
//@ check: fails
//@ lint: unflushed-write at lost
//@ prove: refuted
//@ variant WORD: -DTYPE=int
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant WIDE: -DTYPE=__int128
//@ check: clean
//@ lint: clean
//@ prove: skip (no integers of more than 64 bits)

#include <assert.h>
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT struct {
  _Alignas(64) TYPE a;
  _Alignas(64) int committed;
} p;

int main(void) {
  if (p.committed) {
    assert(p.a == 1);
    return 0;
  }
  __builtin_nontemporal_store((TYPE)1, &p.a); /* MARK: lost */
  _mm_sfence();
  p.committed = 1;
  _mm_clwb(&p.committed);
  _mm_sfence();
  return 0;
}
