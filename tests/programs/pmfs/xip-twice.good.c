// As xip-twice.bad.c: the writer flushes, its caller waits.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

static void write_block(char *mem, const char *buf, size_t len) {
  memcpy(mem, buf, len);
  pmfs_flush_buffer(mem, len, false);
}

void file_write(struct super_block *sb, const char *buf, size_t len) {
  char *mem = pmfs_get_block(sb, 9);
  write_block(mem, buf, len);
  PERSISTENT_BARRIER();
}
