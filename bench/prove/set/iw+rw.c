//! unwind 3
//! refuted 1 4
#include "../set.h"

THREAD(1, i(0, 1); w(1, 1))
THREAD(2, w(2, 1 + r(1)))

void recover(void) {
  check_node(0, 1);
  if (flag(1))
    crashproof_assert(was_member(0));
  if (flag(2) == 2)
    crashproof_assert(!member(0));
}

RUN_2
