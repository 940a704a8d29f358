// As tx-repeated.bad.c: logged once, written back by the commit. An object of this transaction needs neither.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct object {
  uint64_t a, b;
};

void update(PMEMobjpool *pop, PMEMoid oid) {
  TX_BEGIN(pop) {
    TX_ADD(oid, struct object);
    D(struct object, oid)->a = 1;
    D(struct object, oid)->b = 2;
  } TX_END
}

PMEMoid make(PMEMobjpool *pop) {
  PMEMoid oid = {0};
  TX_BEGIN(pop) {
    oid = pmemobj_tx_alloc(sizeof(struct object), 0);
    D(struct object, oid)->a = 1;
    D(struct object, oid)->b = 2;
  } TX_END
  return oid;
}
