// As several-at-once.bad.c, one after the other.
//@ flags lint: --model strict
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct inode {
  uint64_t size;
};

void grow(struct super_block *sb) {
  struct inode *first = pmfs_get_inode(sb, 3);
  struct inode *second = pmfs_get_inode(sb, 4);
  first->size = 4096;
  pmfs_flush_buffer(&first->size, sizeof first->size, true);
  second->size = 8192;
  pmfs_flush_buffer(&second->size, sizeof second->size, true);
}
