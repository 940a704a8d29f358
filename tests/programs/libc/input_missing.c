// Nobody said what there is to read.
//@ prove: unknown at not-modelled (--stdin)
//@ check: refused (crashproof: no persistent memory found: the program never stored to any)
//@ lint: clean, no warnings
#include <stdio.h>
int main(void) {
  return getchar() == 'x'; // MARK: not-modelled
}
void recover(void) {}
