// As super-copy.good.c, but the copy that is renewed in passing is not flushed.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at copy
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct super {
  uint16_t sum;
  uint16_t magic;
  uint32_t time;
  char rest[504];
};

static inline void pmfs_memlock_super(struct super_block *sb, struct super *super) {
  super->sum = (uint16_t)(super->magic + super->time);
  memcpy(super + 1, super, sizeof *super); // MARK: copy
}

void rename_super(struct super_block *sb, const char *name) {
  struct super *super = pmfs_get_super(sb);
  memcpy(super->rest, name, sizeof super->rest);
  pmfs_memlock_super(sb, super);
  pmfs_flush_buffer(super, sizeof *super, true);
}
