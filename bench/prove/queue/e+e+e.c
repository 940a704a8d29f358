//! unwind 3
//! refuted 1 2 3
#define NODES 3
#include "../queue.h"

THREAD(1, e(0))
THREAD(2, e(1))
THREAD(3, e(2))

void recover(void) {
  walk();
}

RUN_3
