// A pointer that is the number of an error: what is stored where nothing failed is lost all the same.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct inode {
  uint64_t root;
  char pad[120];
  uint64_t flags;
};

static int is_error(const void *pointer) { return (unsigned long)pointer >= (unsigned long)-4095; }

static int new_block(int want) { return want > 9 ? -28 : 0; }

static struct inode *make(struct super_block *sb, int want) {
  struct inode *pi = pmfs_get_inode(sb, 3);
  pi->root = 0; // MARK: unflushed-write
  if (new_block(want) < 0) {
    pi->flags = 1;
    return (void *)-22L;
  }
  return pi;
}

int format(struct super_block *sb, int want) {
  struct inode *pi = make(sb, want);
  if (is_error(pi))
    return (int)(long)pi;
  pi->flags = 2;
  pmfs_flush_buffer(&pi->flags, sizeof pi->flags, true);
  return 0;
}
