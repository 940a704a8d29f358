//! refuted 12 data == 42
#include <crashproof.h>
PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
int main(void) {
  data = 42;
  flag = 1;
  return 0;
}
void recover(void) {
  if (flag)
    crashproof_assert(data == 42);
}
