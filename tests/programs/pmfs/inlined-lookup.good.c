// Linux has its lookups inlined everywhere; they still give the same inode for the same number, on lines of its own.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include <stdbool.h>
#include <stdint.h>

struct super_block {
  char *start;
  uint64_t table;
};

struct pmfs_inode {
  uint64_t size;
  uint64_t links;
};

void pmfs_flush_buffer(void *buf, uint32_t len, bool fence);

static inline __attribute__((always_inline)) void *pmfs_get_inode(struct super_block *sb, uint64_t ino) {
  return ino ? sb->start + sb->table + ino * sizeof(struct pmfs_inode) : 0;
}

static void change(struct super_block *sb, uint64_t ino, uint64_t size) {
  struct pmfs_inode *pi = pmfs_get_inode(sb, ino);
  pi->size = size;
}

void resize(struct super_block *sb, uint64_t ino, uint64_t size) {
  change(sb, ino, size);
  pmfs_flush_buffer(pmfs_get_inode(sb, ino), sizeof(struct pmfs_inode), true);
}
