// The first 48 bytes of an object share a line.
//@ check: skip (it needs libpmemobj itself)
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: proved
#include "pmemobj.h"
struct root {
  long data[5], valid;
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
  crashproof_assert(root->data[0] == 1);
}
