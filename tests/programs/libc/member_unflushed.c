// The same of a member, beside others that are flushed.
//@ variant SNPRINTF: -DSNPRINTF
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant SPRINTF: -DSPRINTF
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)
//@ variant MEMCCPY: -DMEMCCPY
//@ check: recovery-fails at lost
//@ lint: unflushed-write at lost
//@ prove: skip (not the question here)

#include <assert.h>
#include <crashproof.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>

PERSISTENT struct {
  _Alignas(64) char text[16];
  _Alignas(64) int committed;
} p;

int main(void) {
  if (p.committed) {
    assert(p.text[0] == '1');
    return 0;
  }
#if defined SNPRINTF
#define WRITE snprintf(p.text, sizeof p.text, "%d", 1)
#elif defined SPRINTF
#define WRITE sprintf(p.text, "%d", 1)
#elif defined MEMCCPY
#define WRITE memccpy(p.text, "1", 0, 16)
#endif
  WRITE; /* MARK: lost */
  p.committed = 1;
  _mm_clwb(&p.committed);
  _mm_sfence();
  return 0;
}
