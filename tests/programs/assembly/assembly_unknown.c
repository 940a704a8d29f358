// The plugin does not understand this, so it is followed as it runs; nothing reads what it stores.
//@ check: clean
//@ lint: unknown (inline assembly)
//@ prove: unknown at not-modeled (inline assembly)
#include <crashproof.h>
PERSISTENT long a[8];
int main(void) {
  long *p = a;

  __asm__ volatile("rep stosb" : "+D"(p) : "a"(1), "c"(8) : "memory"); // MARK: not-modeled
  return 0;
}
void recover(void) {}
