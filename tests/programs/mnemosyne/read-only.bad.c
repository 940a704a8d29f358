// A transaction over nothing persistent: nothing of it is durable, and a lock would do.
//@ check: skip (a fragment: it has no main)
//@ lint: empty-transaction at empty-transaction
//@ prove: skip (a fragment: it has no main)
#include "mnemosyne.h"

static struct {
  uint64_t connections;
  uint64_t total;
} stats;

void connected(void) {
  _ITM_beginTransaction(1); // MARK: empty-transaction
  stats.connections++;
  stats.total++;
  _ITM_commitTransaction();
}

MNEMOSYNE_PERSISTENT static uint64_t sessions;

void opened(void) {
  _ITM_beginTransaction(1);
  _ITM_WU8(&sessions, 1);
  _ITM_commitTransaction();
}
