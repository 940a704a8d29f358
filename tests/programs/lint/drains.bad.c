// Both wait, and nothing is flushed in between.
//@ lint: empty-fence at empty-fence
//@ check: skip (a fragment: it has no main)
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct replica {
  void (*drain)(void);
  struct replica *next;
};

static void wait(void) { _mm_sfence(); }

void drain_all(struct replica *r) {
  r->drain = wait;
  r->drain();
  _mm_sfence(); // MARK: empty-fence
}
