// One line persists in order: no flush is needed.
//! holds
#include <crashproof.h>
PERSISTENT struct {
  long data, flag;
} pair __attribute__((aligned(64)));
int main(void) {
  pair.data = 42;
  pair.flag = 1;
  return 0;
}
void recover(void) {
  if (pair.flag)
    crashproof_assert(pair.data == 42);
}
