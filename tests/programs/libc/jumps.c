// A jump goes back to where the buffer was set, also out of functions, and as often as one likes.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <setjmp.h>
PERSISTENT long reached;
static jmp_buf place;
static int rounds;
static void deep(int depth) {
  if (depth == 0)
    longjmp(place, rounds);
  deep(depth - 1);
}
int main(void) {
  volatile int local = 0;
  int value = setjmp(place);
  /* The first jump is one with 0, which arrives as 1. */
  crashproof_assert(value == rounds);
  local++;
  if (rounds < 3) {
    int old = rounds++;
    if (old == 0)
      longjmp(place, 0);
    deep(2);
  }
  crashproof_assert(local == 4 && rounds == 3 && value == 3);
  for (volatile int i = 0; i < 2; i++) {
    jmp_buf inner;
    volatile int jumped = 0;
    if (!setjmp(inner)) {
      if (i == crashproof_nondet_int())
        longjmp(inner, 5);
    } else {
      jumped = 1;
    }
    crashproof_assert(jumped == 0 || jumped == 1);
    rounds += jumped;
  }
  crashproof_assert(rounds <= 5);
  reached = 1;
  crashproof_persist(&reached, sizeof reached);
  return 0;
}
void recover(void) {}
