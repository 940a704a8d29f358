// What was not added, an abort leaves as it is.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: refuted at claim (== root->b)
#include "pmemobj.h"
struct root {
  char before[48];
  long a LINE, b LINE;
};
int main(void) {
  struct root *root = begin(sizeof *root);
  TX_BEGIN(pool) {
    TX_ADD(root->a);
    root->a = 1;
    root->b = 1;
    pmemobj_persist(pool, &root->b, sizeof root->b);
    pmemobj_tx_abort(7);
  }
  TX_END
  crashproof_assert(root->a == 0);
  return 0;
}
void recover(void) {
  struct root *root = find(sizeof *root);
  if (!root)
    return;
  crashproof_assert(root->a == root->b); // MARK: claim
}
