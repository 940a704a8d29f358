// As journal-redundant.bad.c, flushed once.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct entry {
  uint64_t addr;
  uint32_t size;
  uint32_t type;
};

void commit(struct super_block *sb) {
  struct entry *le = pmfs_get_block(sb, 1);
  le->addr = 1;
  le->size = 2;
  pmfs_flush_buffer(le, sizeof *le, true);
}
