#include <crashproof.h>

PERSISTENT _Alignas(64) int data;
PERSISTENT _Alignas(64) int flag;

void recover(void) { crashproof_assert(!flag || data); }

int main(void) {
  // In runs, inputs are 0: only without eADR does this fail then.
  if (crashproof_nondet_int() == 7)
    flag = 1;
  data = 1;
  flag = 1;
  return 0;
}
