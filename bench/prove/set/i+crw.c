//! unwind 3
//! refuted 4
#include "../set.h"

THREAD(1, i(0, 1))
THREAD(2, int found = c(1); w(2, 1 + found + 2 * r(1)))

void recover(void) {
  check_node(0, 1);
  long seen = flag(2);
  if (seen && (seen - 1) & 1)
    crashproof_assert(was_member(0));
  if (seen && (seen - 1) & 2)
    crashproof_assert(was_member(0) && !member(0));
}

RUN_2
