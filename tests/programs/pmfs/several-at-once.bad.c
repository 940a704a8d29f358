// Table 1, "multiple writes made durable at once": under strict persistency each store needs its barrier.
//@ flags lint: --model strict
//@ check: skip (a fragment: it has no main)
//@ lint: multiple-writes-at-once at multiple-writes-at-once
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct inode {
  uint64_t size;
};

void grow(struct super_block *sb) {
  struct inode *first = pmfs_get_inode(sb, 3);
  struct inode *second = pmfs_get_inode(sb, 4);
  first->size = 4096;
  pmfs_flush_buffer(&first->size, sizeof first->size, false);
  second->size = 8192;
  pmfs_flush_buffer(&second->size, sizeof second->size, true); // MARK: multiple-writes-at-once
}
