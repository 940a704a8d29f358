// Table 8, nvm_locks.c:932 and figure 9: new_level is modified on one path and never flushed.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct mutex {
  int64_t owners;
  uint64_t level;
};
struct lkrec {
  uint64_t state;
  char pad[56];
  uint64_t new_level;
};

void lock_shared(struct mutex *mutex, struct lkrec *lk) {
  lk->state = 1;
  nvm_persist1(&lk->state);
  mutex->owners--;
  nvm_persist1(&mutex->owners);
  if (mutex->level > lk->new_level)
    lk->new_level = mutex->level; // MARK: unflushed-write
  lk->state = 2;
  nvm_persist1(&lk->state);
}
