// An array that is defined elsewhere.
//@ check: skip (it cannot be linked: what it uses is nowhere)
//@ lint: unflushed-write at not-modeled
//@ prove: unknown at not-modeled (global `elsewhere`, which is not defined here)
#include <crashproof.h>
extern int elsewhere[];
PERSISTENT int value;
int main(void) {
  value = elsewhere[1]; // MARK: not-modeled
  return 0;
}
void recover(void) {}
