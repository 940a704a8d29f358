// Two plain fields of a published object in different epochs, and no protocol to explain it.
//@ check: skip (a fragment: it has no main)
//@ lint: split-update at split-update
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct account {
  uint64_t balance;
  char pad[56];
  uint64_t limit;
};

void update(PMEMobjpool *pop, struct account *account, uint64_t balance, uint64_t limit) {
  account->balance = balance;
  pmemobj_persist(pop, &account->balance, sizeof account->balance);
  account->limit = limit; // MARK: split-update
  pmemobj_persist(pop, &account->limit, sizeof account->limit);
}
