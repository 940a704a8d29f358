/* A write and a flag. */
//! refuted 1
#include "../flit.h"

THREAD(1, write_x(1); w(1, 1))

void recover(void) {
  if (flag(1))
    crashproof_assert(x.value == 1);
}

RUN_1
