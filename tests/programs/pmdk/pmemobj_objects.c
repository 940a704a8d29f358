// Type numbers, strings, and identifiers of which nobody sees a half.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: proved
#include "pmemobj.h"
#include <string.h>
int main(void) {
  PMEMoid *root = begin(2 * sizeof *root);
  pmemobj_strdup(pool, &root[0], "text", 4);
  crashproof_assert(pmemobj_type_num(root[0]) == 4 && pmemobj_type_num(pmemobj_root(pool, 1)) == 0);
  TX_BEGIN(pool) {
    TX_ADD(root[1]);
    root[1] = pmemobj_tx_strdup("more", 5);
    PMEMoid zero = pmemobj_tx_zalloc(8, 6);
    crashproof_assert(*(long *)pmemobj_direct(zero) == 0);
  }
  TX_END
  pmemobj_free(&root[0]);
  crashproof_assert(root[0].off == 0 && root[0].pool_uuid_lo == 0 && pmemobj_type_num(root[1]) == 5);
  return 0;
}
void recover(void) {
  PMEMoid *root = find(2 * sizeof *root);
  if (!root)
    return;
  crashproof_assert((root[0].off == 0) == (root[0].pool_uuid_lo == 0));
  if (root[0].off)
    crashproof_assert(strcmp(pmemobj_direct(root[0]), "text") == 0);
  if (root[1].off)
    crashproof_assert(strcmp(pmemobj_direct(root[1]), "more") == 0 && pmemobj_type_num(root[1]) == 5);
}
