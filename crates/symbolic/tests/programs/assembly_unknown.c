//! unknown 7 inline assembly
#include <crashproof.h>
PERSISTENT long a[8];
int main(void) {
  long *p = a;

  __asm__ volatile("rep stosb" : "+D"(p) : "a"(1), "c"(8) : "memory");
  return 0;
}
void recover(void) {}
