/* Two writes; one thread writes a flag. */
//! refuted 1
#include "../flit.h"

THREAD(1, write_x(1))
THREAD(2, write_x(2); w(2, 1))

void recover(void) {
  if (flag(2))
    crashproof_assert(x.value != 0);
}

RUN_2
