//! unwind 3
//! refuted 1 2 3 7 8 10
#define NODES 2
#define TAKERS 2
#include "../queue.h"

THREAD(1, e(0))
THREAD(2, e(1))
THREAD(3, d(1, 0))
THREAD(4, d(2, 0))

void recover(void) {
  walk();
}

RUN_4
