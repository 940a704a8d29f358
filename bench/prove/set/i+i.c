//! unwind 3
#define NODES 2
#include "../set.h"

THREAD(1, i(0, 1))
THREAD(2, i(1, 1))

void recover(void) {
  check_node(0, 1);
  check_node(1, 1);
  crashproof_assert(!(member(0) && member(1)));
}

RUN_2
