// nvm_persist1 writes back one line and does not drain what nvm_flush queued.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier at missing-barrier
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct lock {
  uint64_t owner;
  char pad[120];
  uint64_t state;
};

void release(struct lock *lock) {
  lock->owner = 0;
  nvm_flush1(&lock->owner); // MARK: missing-barrier
  lock->state = 1;
  nvm_persist1(&lock->state);
}
