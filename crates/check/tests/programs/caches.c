//! : error at LOST (1 places, 3 recoveries)
//! -DEADR: clean (3 places, 2 recoveries)
//! -DEADR -DSTREAM: error at STREAMED (2 places, 3 recoveries)
//! -DEADR -DSTREAM -DFENCE: clean (2 places, 2 recoveries)
//! -DEADR -DHAS_AUTO: clean (3 places, 2 recoveries)
// Where caches survive nothing needs a flush; but non-temporal stores do not go through them, and still need a fence.
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
    crashproof_assert(!root->done || root->data == 1);
    return 0;
  }
#ifdef HAS_AUTO
  crashproof_assert(pmem_has_auto_flush() == 1);
#endif
#ifdef STREAM
  _mm_stream_si64(&root->data, 1); // STREAMED
#else
  root->data = 1; // LOST
#endif
#ifdef FENCE
  _mm_sfence();
#endif
  root->done = 1;
  return 0;
}
