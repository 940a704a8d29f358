// As file-flush-unmodified.bad.c, flushing what was written.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct inode {
  uint64_t mtime;
  char pad[248];
};

void sync_inode(struct super_block *sb) {
  struct inode *pi = pmfs_get_inode(sb, 3);
  pi->mtime = 1;
  pmfs_flush_buffer(&pi->mtime, sizeof pi->mtime, true);
}
