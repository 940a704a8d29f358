// Copies, fills and flushes of one of several lengths.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
#include <string.h>
PERSISTENT char text[80] __attribute__((aligned(64)));
PERSISTENT int length __attribute__((aligned(64)));
int main(void) {
  int chosen = crashproof_nondet_int() ? 4 : crashproof_nondet_int() ? 70 : 8;
  memset(text, '.', chosen);
  memcpy(text, "abcdefgh", chosen < 8 ? chosen : 8);
  crashproof_persist(text, chosen);
  length = chosen; // MARK: unflushed-write
  return 0;
}
void recover(void) {
  if (!length)
    return;
  crashproof_assert(text[length - 1] == (length == 4 ? 'd' : length == 8 ? 'h' : '.') && text[0] == 'a');
}
