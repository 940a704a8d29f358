// One of several flags chooses what is stored, and there is a case for each.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

enum { MODE = 1, OWNER = 2, TIME = 8 };

struct inode {
  uint64_t mode;
  uint64_t owner;
  uint64_t time;
};

static void update(struct inode *i, unsigned what, uint64_t to) {
  switch (what) {
  case MODE:
    i->mode = to;
    break;
  case TIME:
    i->time = to;
    break;
  case OWNER:
    i->owner = to;
    break;
  }
  persist(i, sizeof *i);
}

void change(struct inode *i, unsigned what, uint64_t to) {
  i->time = to;
  persist(i, sizeof *i);
  what &= MODE | OWNER | TIME;
  if (what == 0)
    return;
  if ((what & (what - 1)) == 0)
    update(i, what, to);
}
