// A step that logs nothing is nested in the transaction; one that logs into it is part of it.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier-nested at missing-barrier-nested
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

static void fill_block(struct super_block *sb, const char *text, int len) {
  char *block = pmfs_get_block(sb, 9);
  memcpy(block, text, len);
  pmfs_flush_buffer(block, len, false); // MARK: missing-barrier-nested
}

void create(struct super_block *sb, const char *text, int len) {
  pmfs_transaction_t *trans = pmfs_new_transaction(sb, 4);
  struct entry *at = pmfs_get_block(sb, 4);
  fill_block(sb, text, len);
  add_entry(sb, trans, at, 3);
  pmfs_commit_transaction(sb, trans);
}
