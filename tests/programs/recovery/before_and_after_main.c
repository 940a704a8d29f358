// What runs before main and after it is part of the program, in recovery as well.
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ lint: unflushed-write at recovery-fails-nothing-lost
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim (value < 9)
#include <crashproof.h>
#include <stdlib.h>
PERSISTENT int value;
static int constructed, order;
__attribute__((constructor(200))) static void late(void) { order = order * 10 + 2; }
__attribute__((constructor(101))) static void early(void) {
  constructed = 1;
  order = order * 10 + 1;
}
static void first(void) { value = value == 5 ? 9 : 8; } // MARK: recovery-fails-nothing-lost
static void second(void) { value = 5; } // MARK: unflushed-write
int main(void) {
  crashproof_assert(constructed && order == 12);
  atexit(first);
  atexit(second);
  if (crashproof_crashes()) {
    crashproof_assert(value < 9); // MARK: claim
    return 0;
  }
  value = 1;
  exit(0);
}
