// One barrier for three that are queued.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct heap {
  uint64_t first;
  char pad[56];
  uint64_t free;
  char gap[56];
  uint64_t root;
};

static void finish(struct heap *heap) {
  heap->first = 1;
  nvm_flush1(&heap->first);
  heap->free = 0;
  nvm_flush1(&heap->free);
}

void create(nvm_desc desc, struct heap *heap, uint64_t root) {
  finish(heap);
  heap->root = root;
  nvm_flush1(&heap->root);
  nvm_persist();
  nvm_txbegin(desc);
  NVM_UNDO(heap->root);
  heap->root = root + 1;
  nvm_flush1(&heap->root);
  nvm_txend();
}
