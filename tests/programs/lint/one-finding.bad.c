// On one path nothing is stored, on all of them half of what is flushed is not: that is the finding.
//@ check: skip (a fragment: it has no main)
//@ lint: flush-unmodified at flush-unmodified
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
  if (what == 1)
    i->mode = to;
  else if (what == 2)
    i->owner = to;
  persist(i, sizeof *i); // MARK: flush-unmodified
}
