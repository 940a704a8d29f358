// A transaction makes what was added to it durable at once, and nothing else.
//@ variant added: -DADDED
//@ check: skip (the runtime stands in for libpmem and libpmem2 only)
//@ lint: clean
//@ prove: proved
//@ variant not-added:
//@ check: skip (the runtime stands in for libpmem and libpmem2 only)
//@ lint: unlogged-write at LOST
//@ prove: refuted
#include "pmemobj.h"

struct root {
  long first LINE, second LINE;
};

int main(void) {
  struct root *root = begin(sizeof *root);
  TX_BEGIN(pool) {
    TX_ADD(root->first);
#ifdef ADDED
    TX_ADD(root->second);
#endif
    root->first = 1;
    root->second = 1; // MARK: LOST
  }
  TX_END
  return 0;
}

void recover(void) {
  struct root *root = find(sizeof *root);
  if (root)
    crashproof_assert(root->first == root->second);
}
