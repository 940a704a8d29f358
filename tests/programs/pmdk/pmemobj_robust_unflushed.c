// One line after the other, each in a transaction of its own: robust as long as the library flushes.
//@ flags robust: --no-flushes
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: proved
//@ robust: refuted at claim (a crash can leave root)
#include "pmemobj.h"
struct root {
  char before[48];
  long a LINE, b LINE;
};
int main(void) {
  struct root *root = begin(sizeof *root);
  TX_BEGIN(pool) {
    TX_ADD(*root);
    root->a = 1; // MARK: claim
  }
  TX_END
  TX_BEGIN(pool) {
    TX_ADD(*root);
    root->b = 1;
  }
  TX_END
  return 0;
}
