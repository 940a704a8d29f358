// One line persists in order: no flush is needed.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: proved
#include <crashproof.h>
PERSISTENT struct {
  long data, flag;
} pair __attribute__((aligned(64)));
int main(void) {
  pair.data = 42; // MARK: unflushed-write
  pair.flag = 1; // MARK: unflushed-write-2
  return 0;
}
void recover(void) {
  if (pair.flag)
    crashproof_assert(pair.data == 42);
}
