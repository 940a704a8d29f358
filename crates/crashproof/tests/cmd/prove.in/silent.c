#include <crashproof.h>

PERSISTENT int value;

int main(void) {
  value = 1;
#ifdef UNREACHED
  if (value == 2)
    crashproof_assert(value == 1);
#endif
  return 0;
}
void recover(void) {}
