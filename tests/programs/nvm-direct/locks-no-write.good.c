// As locks-no-write.bad.c, persisted where it was written.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct mutex {
  uint64_t owners;
  uint64_t level;
};
struct lkrec {
  uint64_t new_level;
};

void lock_exclusive(struct mutex *mutex, struct lkrec *lk) {
  lk->new_level = 0;
  nvm_persist1(&lk->new_level);
  if (mutex->level > 3) {
    lk->new_level = mutex->level;
    nvm_persist1(&lk->new_level);
  }
}
