// An index that is not known.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
PERSISTENT long cells[4] __attribute__((aligned(64)));
int main(void) {
  unsigned i = crashproof_nondet_uint();
  crashproof_assume(i < 4);
  cells[i] = i + 1; // MARK: unflushed-write
  return 0;
}
void recover(void) {
  int written = 0;
  for (int i = 0; i < 4; i++) {
    crashproof_assert(cells[i] == 0 || cells[i] == i + 1);
    written += cells[i] != 0;
  }
  crashproof_assert(written <= 1);
}
