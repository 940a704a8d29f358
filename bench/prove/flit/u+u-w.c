/* Two updates; one thread writes a flag with what it found. */
//! refuted 2
#include "../flit.h"

THREAD(1, u(1))
THREAD(2, long old = u(2); w(2, 1 + old))

void recover(void) {
  if (flag(2))
    check_updated(2, flag(2) - 1);
}

RUN_2
