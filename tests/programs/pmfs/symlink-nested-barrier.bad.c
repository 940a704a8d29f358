// Table 3, symlink.c:38 and figure 4: an inner step flushes without a barrier and returns into a transaction.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier-nested at missing-barrier-nested
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct inode {
  uint64_t size;
};

static int block_symlink(struct super_block *sb, const char *name, int len) {
  char *block = pmfs_get_block(sb, 7);
  memcpy(block, name, len);
  block[len] = 0;
  pmfs_flush_buffer(block, len + 1, false); // MARK: missing-barrier-nested
  return 0;
}

int symlink(struct super_block *sb, const char *name, int len) {
  pmfs_transaction_t *trans = pmfs_new_transaction(sb, 4);
  struct inode *pi = pmfs_get_inode(sb, 3);
  pmfs_add_logentry(sb, trans, pi, sizeof *pi, 0);
  block_symlink(sb, name, len);
  pi->size = len;
  pmfs_commit_transaction(sb, trans);
  return 0;
}
