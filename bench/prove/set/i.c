//! unwind 3
#include "../set.h"

THREAD(1, i(0, 1))

void recover(void) {
  check_node(0, 1);
}

RUN_1
