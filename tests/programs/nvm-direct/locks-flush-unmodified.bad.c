// Table 8, nvm_locks.c:1411 and nvm_heap.c:1675: more is flushed than was modified.
//@ check: skip (a fragment: it has no main)
//@ lint: flush-unmodified at flush-unmodified
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct mutex {
  int64_t owners;
  char waiters[192];
};

void recover(struct mutex *mutex, int count) {
  mutex->owners = -count;
  nvm_flush(mutex, sizeof *mutex); // MARK: flush-unmodified
  nvm_persist();
}
