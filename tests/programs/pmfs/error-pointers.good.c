// What is left behind where something failed is not used; callers tell by a pointer that is the number of an error.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
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
  pi->root = 0;
  if (new_block(want) < 0) {
    pi->flags = 1;
    return (void *)-22L;
  }
  pmfs_flush_buffer(&pi->root, sizeof pi->root, true);
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
