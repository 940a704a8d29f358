// A transaction that only reads keeps others from changing what it reads.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "mnemosyne.h"

static __attribute__((section("PERSISTENT"))) struct {
  uint64_t cars;
  uint64_t rooms;
} tables;

uint64_t all(void) {
  uint64_t sum;
  _ITM_beginTransaction(1);
  sum = tables.cars + tables.rooms;
  _ITM_commitTransaction();
  return sum;
}
