// Nobody said what there is to read.
//@ prove: unknown at not-modelled (--stdin)
//@ check: vacuous
//@ lint: clean, no warnings
#include <stdio.h>
int main(void) {
  return getchar() == 'x'; // MARK: not-modelled
}
void recover(void) {}
