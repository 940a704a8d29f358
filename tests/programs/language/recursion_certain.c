// Calls that must be made are not counted, and neither are rounds that only a failing claim could end.
//@ flags prove: --unwind 1 --recursion 1
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
#include <string.h>
PERSISTENT char cells[20] __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));
static long factorial(int n) { return n <= 1 ? 1 : n * factorial(n - 1); }
int main(void) {
  memset(cells, 7, sizeof cells);
  crashproof_persist(cells, sizeof cells);
  done = factorial(12); // MARK: unflushed-write
  return 0;
}
void recover(void) {
  if (!done)
    return;
  crashproof_assert(done == 479001600);
  for (int i = 0; i < 20; i++)
    crashproof_assert(cells[i] == 7);
  crashproof_assert(memcmp(cells, "\7\7\7\7\7\7\7\7\7\7\7\7\7\7\7\7\7\7\7\7", 20) == 0);
}
