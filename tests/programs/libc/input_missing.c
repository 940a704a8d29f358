// Nobody said what there is to read.
//@ check: vacuous
//@ lint: vacuous
//@ prove: unknown at not-modeled (--stdin)
#include <stdio.h>
int main(void) {
  return getchar() == 'x'; // MARK: not-modeled
}
void recover(void) {}
