/* Four updates; one thread writes a flag with what it found. */
//! refuted 2
#include "../flit.h"

THREAD(1, u(1))
THREAD(2, u(2))
THREAD(3, u(3))
THREAD(4, long old = u(4); w(4, 1 + old))

void recover(void) {
  if (flag(4))
    check_updated(4, flag(4) - 1);
}

RUN_4
