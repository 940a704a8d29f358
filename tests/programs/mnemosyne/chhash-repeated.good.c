// As chhash-repeated.bad.c, written once.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "mnemosyne.h"

struct hash {
  uint64_t count;
  uint64_t iterator;
};
MNEMOSYNE_PERSISTENT struct hash hash;

void add(uint64_t start) {
  _ITM_beginTransaction(0);
  _ITM_WU8(&hash.count, start);
  _ITM_WU8(&hash.iterator, start);
  _ITM_commitTransaction();
}
