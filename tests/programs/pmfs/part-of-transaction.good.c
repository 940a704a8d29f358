// A step that logs into the transaction is part of it: what it flushes, the commit waits for.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct entry {
  uint64_t inode;
  char name[56];
};

static void add_entry(struct super_block *sb, pmfs_transaction_t *trans, struct entry *at, uint64_t inode) {
  struct entry *next = (struct entry *)pmfs_get_block(sb, 8);
  pmfs_add_logentry(sb, trans, &at->inode, sizeof at->inode, 0);
  at->inode = inode;
  next->inode = 0;
  pmfs_flush_buffer(&next->inode, sizeof next->inode, false);
}

void create(struct super_block *sb) {
  pmfs_transaction_t *trans = pmfs_new_transaction(sb, 4);
  struct entry *at = pmfs_get_block(sb, 4);
  add_entry(sb, trans, at, 3);
  pmfs_commit_transaction(sb, trans);
}
