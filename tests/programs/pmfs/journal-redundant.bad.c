// Table 3, journal.c:632: log entries are flushed one by one, then again as a whole when committing.
//@ check: skip (a fragment: it has no main)
//@ lint: redundant-flush at redundant-flush
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

struct entry {
  uint64_t addr;
  uint32_t size;
  uint32_t type;
};

void commit(struct super_block *sb) {
  struct entry *le = pmfs_get_block(sb, 1);
  le->addr = 1;
  le->size = 2;
  pmfs_flush_buffer(le, sizeof *le, false);
  pmfs_flush_buffer(le, sizeof *le, true); // MARK: redundant-flush
}
