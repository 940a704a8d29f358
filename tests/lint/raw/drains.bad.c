// Both wait, and nothing is flushed in between.
#include "raw.h"

struct replica {
  void (*drain)(void);
  struct replica *next;
};

static void wait(void) { _mm_sfence(); }

void drain_all(struct replica *r) {
  r->drain = wait;
  r->drain();
  _mm_sfence(); //~ empty-fence
}
