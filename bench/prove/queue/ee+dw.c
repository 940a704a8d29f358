//! unwind 3
#define NODES 2
#include "../queue.h"

THREAD(1, e(0); e(1))
THREAD(2, d(1, 0); w(1, 1))

void recover(void) {
  walk();
  if (flag(1))
    check_dequeued(1, 0);
}

RUN_2
