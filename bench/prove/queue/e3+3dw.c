//! unwind e.0=1 d.0=5
//! refuted 1 2 5 6 7 8 9 10 only
#define NODES 3
#define TAKERS 3
#include "../queue.h"

THREAD(1, e(0); e(1); e(2))
THREAD(2, d(1, 0); w(1, 1))
THREAD(3, d(2, 0); w(2, 1))
THREAD(4, d(3, 0); w(3, 1))

void recover(void) {
  walk();
  if (flag(1))
    check_dequeued(1, 0);
  if (flag(2))
    check_dequeued(2, 0);
  if (flag(3))
    check_dequeued(3, 0);
}

RUN_4
