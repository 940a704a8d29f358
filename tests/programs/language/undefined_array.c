// An array that is defined elsewhere.
//@ check: skip (it cannot be linked: what it uses is nowhere)
//@ lint: unflushed-write at not-modelled
//@ prove: unknown at not-modelled (global `elsewhere`, which is not defined here)
#include <crashproof.h>
extern int elsewhere[];
PERSISTENT int value;
int main(void) {
  value = elsewhere[1]; // MARK: not-modelled
  return 0;
}
void recover(void) {}
