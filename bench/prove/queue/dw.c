//! unwind 3
#include "../queue.h"

THREAD(1, d(1, 0); w(1, 1))

void recover(void) {
  walk();
  if (flag(1))
    check_dequeued(1, 0);
}

RUN_1
