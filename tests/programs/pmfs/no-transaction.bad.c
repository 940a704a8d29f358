// Without a transaction nothing is logged, so nobody writes it back.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct inode {
  uint64_t root;
};

static void set_root(struct super_block *sb, pmfs_transaction_t *trans, struct inode *pi, uint64_t root) {
  pmfs_add_logentry(sb, trans, pi, sizeof *pi, 0);
  pi->root = root; // MARK: unflushed-write
}

void inside(struct super_block *sb) {
  struct inode *pi = pmfs_get_inode(sb, 3);
  pmfs_transaction_t *trans = pmfs_new_transaction(sb, 4);
  set_root(sb, trans, pi, 7);
  pmfs_commit_transaction(sb, trans);
}

void outside(struct super_block *sb) {
  struct inode *pi = pmfs_get_inode(sb, 5);
  set_root(sb, NULL, pi, 7);
}
