//@ prove: unknown at not-modelled (`mystery`, which is not defined here)
//@ check: refused (does not compile: /usr/bin/ld: /tmp/unknown_call-7b3281.o: in function `main':)
//@ lint: unflushed-write at not-modelled
#include <crashproof.h>
long mystery(long);
PERSISTENT long x;
int main(void) {
  x = mystery(1); // MARK: not-modelled
  return 0;
}
void recover(void) {}
