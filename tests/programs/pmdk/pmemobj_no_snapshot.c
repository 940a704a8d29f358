// What was added with POBJ_XADD_NO_SNAPSHOT is flushed, but not taken back.
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
    pmemobj_tx_xadd_range_direct(&root->a, sizeof root->a, 4);
    TX_ADD(root->b);
    root->a = 1;
    root->b = 1;
  }
  TX_END
  return 0;
}
void recover(void) {
  struct root *root = find(sizeof *root);
  if (!root)
    return;
  crashproof_assert(root->a == root->b); // MARK: claim
}
