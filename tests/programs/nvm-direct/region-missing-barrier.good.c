// As region-missing-barrier.bad.c, with the queue drained.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct region {
  uint64_t size;
  void *upgrade;
};

void create_region(nvm_desc desc, struct region *region, void *mutexes) {
  region->size = 4096;
  nvm_flush(region, sizeof *region);
  nvm_persist();
  nvm_txbegin(desc);
  NVM_UNDO(region->upgrade);
  region->upgrade = mutexes;
  nvm_flush1(&region->upgrade);
  nvm_txend();
}
