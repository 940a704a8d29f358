/* Four threads of two updates; one writes a flag. */
//! refuted 2
#include "../flit.h"

THREAD(1, uu(1))
THREAD(2, uu(2))
THREAD(3, uu(3))
THREAD(4, uu(4); w(4, 1))

void recover(void) {
  check_y();
  if (flag(4))
    crashproof_assert(x.value != 0 && y.value != 0);
}

RUN_4
