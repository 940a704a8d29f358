// As locks-missing-flush.bad.c, with the flush; and the same bug's harmless twin: a field of the word that
// is flushed anyway.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
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
struct small {
  uint32_t state;
  uint32_t new_level;
};

void lock_shared(struct mutex *mutex, struct lkrec *lk) {
  lk->state = 1;
  nvm_persist1(&lk->state);
  mutex->owners--;
  nvm_persist1(&mutex->owners);
  if (mutex->level > lk->new_level) {
    lk->new_level = mutex->level;
    nvm_persist1(&lk->new_level);
  }
  lk->state = 2;
  nvm_persist1(&lk->state);
}

void lock_small(struct mutex *mutex, struct small *lk) {
  if (mutex->level > lk->new_level)
    lk->new_level = (uint32_t)mutex->level;
  lk->state = 2;
  nvm_persist1(&lk->state);
}
