// The inode is found twice, by the same number. It is logged only after it was stored to.
//@ check: skip (a fragment: it has no main)
//@ lint: unlogged-write at unlogged-write
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct pmfs_inode {
  uint64_t size;
  uint64_t links;
};

static void link_in(struct super_block *sb, uint64_t ino) {
  struct pmfs_inode *pi = pmfs_get_inode(sb, ino);
  pi->links = 1; // MARK: unlogged-write
}

void create(struct super_block *sb, uint64_t ino) {
  pmfs_transaction_t *trans = pmfs_new_transaction(sb, 2);
  struct pmfs_inode *other = pmfs_get_inode(sb, ino + 1);
  pmfs_add_logentry(sb, trans, other, sizeof *other, 0);
  other->size = ino;
  link_in(sb, ino);
  pmfs_commit_transaction(sb, trans);
}
