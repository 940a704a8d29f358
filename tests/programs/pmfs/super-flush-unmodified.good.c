// As super-flush-unmodified.bad.c, flushing the one that was written.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct super {
  uint16_t magic;
  char pad[510];
};

int check_integrity(struct super_block *sb) {
  struct super *super = pmfs_get_super(sb);
  struct super *copy = super + 1;
  if (super->magic != 77) {
    memcpy(super, copy, sizeof *super);
    pmfs_flush_buffer(super, sizeof *super, true);
  }
  return 1;
}
