// An abort inside is one of the transaction around it, too.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: proved
#include "pmemobj.h"
struct root {
  long a, b;
};
int main(void) {
  struct root *root = begin(sizeof *root);
  volatile int outer = 0, inner = 0, committed = 0;
  TX_BEGIN(pool) {
    TX_ADD(root->a);
    root->a = 1;
    TX_BEGIN(pool) {
      TX_ADD(root->b);
      root->b = 1;
      pmemobj_tx_abort(5);
      committed++;
    }
    TX_ONABORT { inner++; }
    TX_END
    committed++;
  }
  TX_ONCOMMIT { committed++; }
  TX_ONABORT {
    outer++;
    crashproof_assert(root->a == 0 && root->b == 0);
  }
  TX_END
  crashproof_assert(outer == 1 && inner == 1 && committed == 0);
  return 0;
}
void recover(void) {
  struct root *root = find(sizeof *root);
  if (root)
    crashproof_assert(root->a == 0 && root->b == 0);
}
