// What is found by the same number is the same inode: it was logged. Logging waits, so what was flushed before the
// transaction is durable before anything is stored in it; and whoever is called inside of it need not wait.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct pmfs_inode {
  uint64_t size;
  uint64_t links;
};

pmfs_transaction_t *pmfs_current_transaction(void);

static void link_in(struct super_block *sb, uint64_t ino) {
  struct pmfs_inode *pi = pmfs_get_inode(sb, ino);
  pi->links = 1;
}

static void truncate(struct super_block *sb, uint64_t block) {
  uint64_t *head = pmfs_get_block(sb, block);
  *head = block;
  pmfs_flush_buffer(head, sizeof *head, false);
  if (pmfs_current_transaction() == NULL)
    PERSISTENT_BARRIER();
}

void create(struct super_block *sb, uint64_t ino) {
  struct pmfs_inode *pi = pmfs_get_inode(sb, ino);
  pi->size = 0;
  pmfs_flush_buffer(pi, sizeof *pi, false);
  pmfs_transaction_t *trans = pmfs_new_transaction(sb, 2);
  pmfs_add_logentry(sb, trans, pi, sizeof *pi, 0);
  pi->size = ino;
  link_in(sb, ino);
  truncate(sb, ino);
  pmfs_commit_transaction(sb, trans);
}

void shrink(struct super_block *sb, uint64_t block) { truncate(sb, block); }
