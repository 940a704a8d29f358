/* Three threads of two updates. */
//! refuted 2
#include "../flit.h"

THREAD(1, uu(1))
THREAD(2, uu(2))
THREAD(3, uu(3))

void recover(void) {
  check_y();
}

RUN_3
