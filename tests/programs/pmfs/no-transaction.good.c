// As no-transaction.bad.c, written back where there is no transaction. Beginning one may fail; nothing is open then.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct inode {
  uint64_t root;
};

static void set_root(struct super_block *sb, pmfs_transaction_t *trans, struct inode *pi, uint64_t root) {
  pmfs_add_logentry(sb, trans, pi, sizeof *pi, 0);
  pi->root = root;
}

static void write_name(struct super_block *sb, const char *name, int len) {
  char *block = pmfs_get_block(sb, 7);
  memcpy(block, name, len);
  pmfs_flush_buffer(block, len, false);
}

int inside(struct super_block *sb) {
  struct inode *pi = pmfs_get_inode(sb, 3);
  pmfs_transaction_t *trans = pmfs_new_transaction(sb, 4);
  if ((unsigned long)trans >= (unsigned long)-4095)
    return (int)(long)trans;
  set_root(sb, trans, pi, 7);
  pmfs_commit_transaction(sb, trans);
  return 0;
}

void outside(struct super_block *sb, const char *name, int len) {
  struct inode *pi = pmfs_get_inode(sb, 5);
  inside(sb);
  write_name(sb, name, len);
  PERSISTENT_BARRIER();
  set_root(sb, NULL, pi, 7);
  pmfs_flush_buffer(pi, sizeof *pi, true);
}
