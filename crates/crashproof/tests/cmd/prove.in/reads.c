#include <crashproof.h>
#include <stdio.h>

PERSISTENT _Alignas(64) int data, flag;

void recover(void) { crashproof_assert(!flag || data); }

int main(void) {
  if (getchar() == 'x') {
    flag = 1;
    data = 1;
  }
  return 0;
}
