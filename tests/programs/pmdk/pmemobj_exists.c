// A pool that was there before is opened, not created.
//@ flags prove: --pool created
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: vacuous
#include "pmemobj.h"
int main(void) {
  crashproof_assert(!pmemobj_create("pool", "layout", 1 << 23, 0600));
  long *root = find(sizeof *root);
  crashproof_assert(root && *root == 0);
  return 0;
}
void recover(void) { crashproof_assert(find(sizeof(long)) != 0); }
