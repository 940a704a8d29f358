/* A write with a flag; a load followed by a flag with what it found. */
//! refuted 1 3
#include "../flit.h"

THREAD(1, write_x(1); w(1, 1))
THREAD(2, long seen = load_x(); w(2, 1 + seen))

void recover(void) {
  if (flag(1) || flag(2) == 2)
    crashproof_assert(x.value == 1);
}

RUN_2
