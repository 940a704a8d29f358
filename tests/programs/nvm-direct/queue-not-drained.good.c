// As queue-not-drained.bad.c: nvm_persist drains.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct lock {
  uint64_t owner;
  char pad[120];
  uint64_t state;
};

void release(struct lock *lock) {
  lock->owner = 0;
  nvm_flush1(&lock->owner);
  lock->state = 1;
  nvm_flush1(&lock->state);
  nvm_persist();
}
