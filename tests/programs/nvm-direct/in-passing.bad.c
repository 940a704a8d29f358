// The callee always begins a transaction: what is queued is not durable then.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier at missing-barrier
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct region {
  uint64_t attached;
  char pad[56];
  uint64_t version;
};

static void upgrade(nvm_desc desc, struct region *rg) {
  nvm_txbegin(desc);
  NVM_UNDO(rg->version);
  rg->version = 2;
  nvm_flush1(&rg->version);
  nvm_txend();
}

void attach(nvm_desc desc, struct region *rg) {
  rg->attached++;
  nvm_flush1(&rg->attached); // MARK: missing-barrier
  upgrade(desc, rg);
}
