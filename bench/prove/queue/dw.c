#include "../queue.h"

THREAD(1, d(1); w(1, 1))

void recover(void) {
  walk();
  if (flag(1))
    check_dequeued(1);
}

RUN_1
