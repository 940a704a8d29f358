// Table 8, chhash.c:185 and 270: the same field is written twice in one transaction, and logged twice.
//@ check: skip (a fragment: it has no main)
//@ lint: repeated-persist at repeated-persist
//@ prove: skip (a fragment: it has no main)
#include "mnemosyne.h"

struct hash {
  uint64_t count;
  uint64_t iterator;
};
MNEMOSYNE_PERSISTENT struct hash hash;

void add(uint64_t start) {
  _ITM_beginTransaction(0);
  _ITM_WU8(&hash.iterator, 0);
  _ITM_WU8(&hash.count, start);
  _ITM_WU8(&hash.iterator, start); // MARK: repeated-persist
  _ITM_commitTransaction();
}
