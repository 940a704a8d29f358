// The flush as the kernel inlines it: the length grows by how far the buffer lies inside a line.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

static inline __attribute__((always_inline)) void write_back(void *buf, uint32_t len, bool fence) {
  uint32_t i;
  len = len + ((unsigned long)buf & 63);
  for (i = 0; i < len; i += 64)
    asm volatile("clflush %0\n" : "+m"(*((char *)buf + i)));
  if (fence)
    asm volatile("sfence\n" : :);
}

struct super {
  uint64_t size;
  char rest[504];
};

void repair(struct super_block *sb, uint64_t size) {
  struct super *super = pmfs_get_super(sb);
  super[0].size = size;
  super[1].size = size; // MARK: unflushed-write
  write_back(super, sizeof super->size, true);
}
