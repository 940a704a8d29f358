//! unwind 3
#define NODES 2
#include "../queue.h"

THREAD(1, e(0); e(1))
THREAD(2, d(1, 0))

void recover(void) {
  walk();
}

RUN_2
