// Where caches survive nothing needs a flush; but non-temporal stores do not go through them, and still need a fence.
//@ variant plain:
//@ check: fails at LOST
//@ figures: 1 crash points, 3 recoveries
//@ lint: unflushed-write at LOST
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim-violated
//@ variant eadr: -DEADR
//@ flags check: --eadr
//@ flags prove: --eadr
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: skip (lint does not know eADR)
//@ prove: proved
//@ variant eadr-stream: -DEADR -DSTREAM
//@ flags check: --eadr
//@ flags prove: --eadr
//@ check: fails at STREAMED
//@ figures: 2 crash points, 3 recoveries
//@ lint: skip (lint does not know eADR)
//@ prove: refuted at claim-violated
//@ variant eadr-stream-fence: -DEADR -DSTREAM -DFENCE
//@ flags check: --eadr
//@ flags prove: --eadr
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: skip (lint does not know eADR)
//@ prove: proved
//@ variant eadr-has-auto: -DEADR -DHAS_AUTO
//@ flags check: --eadr
//@ flags prove: --eadr
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: skip (lint does not know eADR)
//@ prove: proved
#include <crashproof.h>
#include <emmintrin.h>
#include <libpmem.h>

struct root {
  long long data __attribute__((aligned(64)));
  long long done __attribute__((aligned(64)));
};

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (crashproof_crashes()) {
    crashproof_assert(!root->done || root->data == 1); // MARK: claim-violated
    return 0;
  }
#ifdef HAS_AUTO
  crashproof_assert(pmem_has_auto_flush() == 1); // MARK: claim-violated-2
#endif
#ifdef STREAM
  _mm_stream_si64(&root->data, 1); // MARK: STREAMED
#else
  root->data = 1; // MARK: LOST
#endif
#ifdef FENCE
  _mm_sfence();
#endif
  root->done = 1; // MARK: unflushed-write
  return 0;
}
