// Table 3, xips.c:207 and 262: the helper that copies to an offset of a block flushes what it copied, where there is clwb, and
// its caller flushes the first line again.
//@ check: skip (a fragment: it has no main)
//@ lint: redundant-flush at again
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

extern int support_clwb;
unsigned long __copy_from_user(void *to, const void *from, unsigned long n);
unsigned long __copy_from_user_inatomic_nocache(void *to, const void *from, unsigned n);

static inline size_t memcpy_to_nvmm(char *kmem, long offset, const char *buf, size_t bytes) {
  if (support_clwb) {
    size_t copied = bytes - __copy_from_user(kmem + offset, buf, bytes);
    pmfs_flush_buffer(kmem + offset, bytes, false);
    return copied;
  }
  return bytes - __copy_from_user_inatomic_nocache(kmem + offset, buf, bytes);
}

size_t write_block(struct super_block *sb, long offset, const char *buf, size_t count) {
  char *block = pmfs_get_block(sb, 9);
  size_t copied = memcpy_to_nvmm(block, offset, buf, count);
  pmfs_flush_buffer(block + offset, 1, false); // MARK: again
  PERSISTENT_BARRIER();
  return copied;
}
