// Both wait, and nothing is flushed in between.
//@ check: skip (a fragment: it has no main)
//@ lint: empty-fence at empty-fence
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct replica {
  void (*drain)(void);
  struct replica *next;
};

PERSISTENT static uint64_t drained;

static void wait(void) { _mm_sfence(); }

void drain_all(struct replica *r) {
  r->drain = wait;
  r->drain();
  _mm_sfence(); // MARK: empty-fence
}

void note(struct replica *r) {
  drain_all(r);
  drained = 1;
  persist(&drained, sizeof drained);
}
