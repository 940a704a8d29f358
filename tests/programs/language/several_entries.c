// Duff's device: a loop that is entered in several places, by a switch.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
PERSISTENT int cells[8] __attribute__((aligned(64)));
PERSISTENT int done __attribute__((aligned(64)));
static void fill(int *to, int count) {
  int rounds = (count + 3) / 4;
  switch (count % 4) {
  case 0:
    do {
      *to++ = 7;
    case 3:
      *to++ = 7;
    case 2:
      *to++ = 7;
    case 1:
      *to++ = 7;
    } while (--rounds > 0);
  }
}
int main(void) {
  fill(cells, 7);
  crashproof_persist(cells, sizeof cells);
  done = 1; // MARK: unflushed-write
  return 0;
}
void recover(void) {
  if (done)
    for (int i = 0; i < 8; i++)
      crashproof_assert(cells[i] == (i < 7 ? 7 : 0));
}
