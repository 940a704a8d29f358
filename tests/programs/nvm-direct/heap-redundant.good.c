// As heap-redundant.bad.c, flushed by the callee alone.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct blk {
  uint64_t state;
  struct blk *next;
};

static void free_blk(struct blk *nvb) {
  nvm_undo(nvb, sizeof *nvb);
  nvb->state = 0;
  nvb->next = 0;
  nvm_flush(nvb, sizeof *nvb);
}

void free_callback(struct blk *nvb) {
  free_blk(nvb);
  nvm_persist();
}
