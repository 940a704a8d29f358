// A transaction in a transaction is part of it: its log and its writes count for the outer commit.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct object {
  uint64_t a, b;
};

static void inner(PMEMobjpool *pop, PMEMoid oid) {
  TX_BEGIN(pop) {
    TX_ADD_FIELD(oid, struct object, a);
    D(struct object, oid)->a = 1;
  } TX_END
}

void outer(PMEMobjpool *pop, PMEMoid oid) {
  TX_BEGIN(pop) {
    TX_ADD_FIELD(oid, struct object, b);
    inner(pop, oid);
    D(struct object, oid)->b = 2;
  } TX_END
}
