// The data is safe before the flag can be.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
int main(void) {
  data = 42;
  crashproof_persist(&data, sizeof data);
  flag = 1; // MARK: unflushed-write
  return 0;
}
void recover(void) {
  if (flag)
    crashproof_assert(data == 42);
}
