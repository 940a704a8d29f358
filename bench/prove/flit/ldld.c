/* Two loads by one thread while another writes; each load is followed by a flag with what it found. */
//! refuted 1 3
#include "../flit.h"

THREAD(1, write_x(1))
THREAD(2, w(1, 1 + load_x()); w(2, 1 + load_x()))

void recover(void) {
  if (flag(1) == 2 || flag(2) == 2)
    crashproof_assert(x.value == 1);
}

RUN_2
