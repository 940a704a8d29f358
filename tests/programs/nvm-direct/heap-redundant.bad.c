// Table 3, nvm_heap.c:1965 and figure 6: the callee flushed the block already.
//@ check: skip (a fragment: it has no main)
//@ lint: redundant-flush at redundant-flush
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
  nvm_flush1(nvb); // MARK: redundant-flush
  nvm_persist();
}
