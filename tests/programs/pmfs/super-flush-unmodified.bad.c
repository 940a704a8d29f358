// Table 8, super.c:542, 543, 579, 584: the copy of the super block is flushed, though only the original was
// repaired.
//@ check: skip (a fragment: it has no main)
//@ lint: flush-unmodified at flush-unmodified
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
    pmfs_flush_buffer(super, sizeof *super, false);
    pmfs_flush_buffer(copy, sizeof *copy, true); // MARK: flush-unmodified
  }
  return 1;
}
