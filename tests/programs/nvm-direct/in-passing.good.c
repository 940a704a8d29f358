// A check begins a transaction of its own now and then; what the caller has queued, it drains where it matters.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct region {
  uint64_t attached;
  char pad[56];
  uint64_t version;
};

static void check(nvm_desc desc, struct region *rg) {
  if (rg->version == 2)
    return;
  nvm_txbegin(desc);
  NVM_UNDO(rg->version);
  rg->version = 2;
  nvm_flush1(&rg->version);
  nvm_txend();
}

void attach(nvm_desc desc, struct region *rg) {
  rg->attached++;
  nvm_flush1(&rg->attached);
  check(desc, rg);
  nvm_persist();
}
