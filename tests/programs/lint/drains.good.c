// One may have nothing to wait for; then the next one waits.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct replica {
  void (*drain)(void);
  struct replica *next;
};

PERSISTENT static uint64_t drained;

static void wait(void) { _mm_sfence(); }
static void nothing(void) {}

void make(struct replica *r, int is_pmem) { r->drain = is_pmem ? wait : nothing; }

void drain_all(struct replica *r) {
  r->drain();
  for (r = r->next; r; r = r->next)
    r->drain();
}

void note(struct replica *r) {
  drain_all(r);
  drained = 1;
  persist(&drained, sizeof drained);
}
