// These 64 bytes would be one line if the object began one, but libpmemobj puts a header in front of it.
//@ check: skip (it needs libpmemobj itself)
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: refuted at claim (== 1)
#include "pmemobj.h"
struct root {
  long data[7], valid;
};
int main(void) {
  struct root *root = begin(sizeof *root);
  root->data[0] = 1; // MARK: unflushed-write
  root->valid = 1; // MARK: unflushed-write-2
  return 0;
}
void recover(void) {
  struct root *root = find(sizeof *root);
  if (!root || !root->valid)
    return;
  crashproof_assert(root->data[0] == 1); // MARK: claim
}
