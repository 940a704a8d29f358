// Persisted by the loop, and once more after it.
//@ check: skip (a fragment: it has no main)
//@ lint: redundant-flush at redundant-flush
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct transaction {
  uint64_t last;
  uint64_t count;
};

void unwind(struct transaction *tx, uint64_t *points, int n) {
  for (int i = 0; i < n; i++) {
    if (points[i] == tx->last)
      tx->last = points[i + 1];
    nvm_persist1(&tx->last);
  }
  nvm_persist1(&tx->last); // MARK: redundant-flush
}
