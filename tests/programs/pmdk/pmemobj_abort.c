// An abort takes back what was added, and goes on where the transaction says what to do then.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: proved
#include "pmemobj.h"
struct root {
  char before[48];
  long a LINE, b LINE;
};
int main(void) {
  struct root *root = begin(sizeof *root);
  volatile int aborted = 0, finally = 0, after = 0;
  for (volatile long i = 1; i <= 2; i++) {
    TX_BEGIN(pool) {
      TX_ADD(root->a);
      TX_ADD(root->b);
      root->a = i;
      if (i == 2)
        pmemobj_tx_abort(7);
      root->b = i;
    }
    TX_ONABORT {
      aborted++;
      crashproof_assert(pmemobj_tx_errno() == 7);
      crashproof_assert(root->a == 1 && root->b == 1);
    }
    TX_FINALLY { finally++; }
    TX_END
    after++;
  }
  crashproof_assert(aborted == 1 && finally == 2 && after == 2);
  return 0;
}
void recover(void) {
  struct root *root = find(sizeof *root);
  if (root)
    crashproof_assert(root->a == root->b && root->a < 2);
}
