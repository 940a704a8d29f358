// As locks-flush-unmodified.bad.c, with the field alone.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "nvm.h"

struct mutex {
  int64_t owners;
  char waiters[192];
};

void recover(struct mutex *mutex, int count) {
  mutex->owners = -count;
  nvm_persist1(&mutex->owners);
}
