//! unwind 3
//! refuted 1
#include "../set.h"

THREAD(1, i(0, 1); w(1, 1))

void recover(void) {
  check_node(0, 1);
  if (flag(1))
    crashproof_assert(member(0));
}

RUN_1
