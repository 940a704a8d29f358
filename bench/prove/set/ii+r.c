//! unwind 3
#define NODES 2
#include "../set.h"

THREAD(1, i(0, 1); i(1, 2))
THREAD(2, r(1))

void recover(void) {
  check_node(0, 1);
  check_node(1, 2);
}

RUN_2
