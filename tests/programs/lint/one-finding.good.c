// As one-finding.bad.c, each by itself.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct inode {
  uint64_t mode;
  char pad[56];
  uint64_t owner;
  char gap[56];
} __attribute__((aligned(64)));

void change(struct inode *i, int what, uint64_t to) {
  i->mode = 0;
  persist(&i->mode, sizeof i->mode);
  if (what) {
    i->mode = to + 1;
    persist(&i->mode, sizeof i->mode);
  } else {
    i->owner = to;
    persist(&i->owner, sizeof i->owner);
  }
}
