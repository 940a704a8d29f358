// As two-scalars.bad.c, in a transaction.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct account {
  uint64_t balance;
  char pad[56];
  uint64_t limit;
};

void update(PMEMobjpool *pop, struct account *account, uint64_t balance, uint64_t limit) {
  TX_BEGIN(pop) {
    pmemobj_tx_add_range_direct(&account->balance, sizeof account->balance);
    account->balance = balance;
    pmemobj_tx_add_range_direct(&account->limit, sizeof account->limit);
    account->limit = limit;
  } TX_END
}
