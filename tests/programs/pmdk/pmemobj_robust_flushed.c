// A transaction with two lines under way: recovery copes, but no run without a crash goes through that.
//@ flags robust: --flush-every-access
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: proved
//@ robust: proved
#include "pmemobj.h"
struct root {
  char before[48];
  long a LINE, b LINE;
};
int main(void) {
  struct root *root = begin(sizeof *root);
  TX_BEGIN(pool) {
    TX_ADD(*root);
    root->a = 1;
    root->b = 1;
  }
  TX_END
  return 0;
}
