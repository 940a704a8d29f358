// Table 3, xips.c:207 and 262: the same buffer is flushed by the writer and again by its caller.
//@ check: skip (a fragment: it has no main)
//@ lint: redundant-flush at redundant-flush
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

static void write_block(char *mem, const char *buf, size_t len) {
  memcpy(mem, buf, len);
  pmfs_flush_buffer(mem, len, false);
}

void file_write(struct super_block *sb, const char *buf, size_t len) {
  char *mem = pmfs_get_block(sb, 9);
  write_block(mem, buf, len);
  pmfs_flush_buffer(mem, len, true); // MARK: redundant-flush
}
