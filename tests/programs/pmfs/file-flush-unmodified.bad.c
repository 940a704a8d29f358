// Table 3, files.c:232: blocks are flushed that this code never wrote.
//@ check: skip (a fragment: it has no main)
//@ lint: flush-unmodified at flush-unmodified
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct inode {
  uint64_t mtime;
  char pad[248];
};

void sync_inode(struct super_block *sb) {
  struct inode *pi = pmfs_get_inode(sb, 3);
  pi->mtime = 1;
  pmfs_flush_buffer(pi, sizeof *pi, true); // MARK: flush-unmodified
}
