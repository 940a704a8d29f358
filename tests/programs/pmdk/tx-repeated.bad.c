// Table 1, "persist the same object multiple times in a transaction".
//@ check: skip (a fragment: it has no main)
//@ lint: repeated-persist at repeated-persist
//@ lint: repeated-persist at repeated-persist-2
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct object {
  uint64_t a, b;
};

void update(PMEMobjpool *pop, PMEMoid oid) {
  TX_BEGIN(pop) {
    TX_ADD(oid, struct object);
    D(struct object, oid)->a = 1;
    TX_ADD(oid, struct object); // MARK: repeated-persist
    D(struct object, oid)->b = 2;
    pmemobj_persist(pop, D(struct object, oid), sizeof(struct object)); // MARK: repeated-persist-2
  } TX_END
}
