// Table 3, nvm_region.c:614 and 933 and figure 3: nvm_flush only queues, and a transaction begins.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier at missing-barrier
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct region {
  uint64_t size;
  void *upgrade;
};

void create_region(nvm_desc desc, struct region *region, void *mutexes) {
  region->size = 4096;
  nvm_flush(region, sizeof *region); // MARK: missing-barrier
  nvm_txbegin(desc);
  NVM_UNDO(region->upgrade);
  region->upgrade = mutexes;
  nvm_flush1(&region->upgrade);
  nvm_txend();
}
