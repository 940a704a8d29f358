//! unknown 6 `mystery`, which is not defined here
#include <crashproof.h>
long mystery(long);
PERSISTENT long x;
int main(void) {
  x = mystery(1);
  return 0;
}
void recover(void) {}
