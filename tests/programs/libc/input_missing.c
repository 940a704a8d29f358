// Nobody said what there is to read.
//@ check: vacuous
//@ lint: vacuous
//@ prove: unknown at not-modelled (--stdin)
#include <stdio.h>
int main(void) {
  return getchar() == 'x'; // MARK: not-modelled
}
void recover(void) {}
