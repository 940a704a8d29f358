//! unwind e.0=1 d.0=4
//! refuted 1 2 5 6 7 8 9 10
#define TAKES 2
#define NODES 2
#define TAKERS 2
#include "../queue.h"

THREAD(1, e(0); e(1))
THREAD(2, d(1, 0); d(1, 1); w(1, 1))
THREAD(3, d(2, 0))

void recover(void) {
  walk();
  if (flag(1))
    check_dequeued(1, 1);
}

RUN_3
