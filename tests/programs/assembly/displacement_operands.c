// Displacement and index of a memory operand are part of the address.
//@ variant NEXT_LINE: -DNEXT_LINE
//@ check: recovery-fails at stored
//@ lint: unflushed-write at stored
//@ lint: flush-unmodified at next
//@ prove: refuted at claim-violated
//@ variant DISPLACED: -DDISPLACED
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant INDEXED: -DINDEXED
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant STORED: -DSTORED
//@ check: recovery-fails at asm
//@ lint: unflushed-write at asm
//@ lint: flush-unmodified at before
//@ prove: unknown (inline assembly)

#include <assert.h>
#include <crashproof.h>
#include <immintrin.h>

PERSISTENT struct {
  _Alignas(64) long first;
  _Alignas(64) long value;
  _Alignas(64) int committed;
} p;

int main(void) {
  if (p.committed) {
    assert(p.value == 1); // MARK: claim-violated
    return 0;
  }
#ifdef STORED
  __asm__ volatile("movq %1, 64(%0)" ::"r"(&p.first), "r"(1L) : "memory"); /* MARK: asm */
  _mm_clwb(&p.first); /* MARK: before */
#else
  p.value = 1; /* MARK: stored */
#endif
#if defined NEXT_LINE
  __asm__ volatile("clwb 64(%0)" ::"r"(&p.value) : "memory"); /* MARK: next */
#elif defined DISPLACED
  __asm__ volatile("clwb 64(%0)" ::"r"(&p.first) : "memory");
#elif defined INDEXED
  __asm__ volatile("clwb (%0,%1,8)" ::"r"(&p.first), "r"(8L) : "memory");
#endif
  _mm_sfence();
  p.committed = 1;
  _mm_clwb(&p.committed);
  _mm_sfence();
  return 0;
}
