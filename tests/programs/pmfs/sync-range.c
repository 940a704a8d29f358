// Table 3, files.c:232: a range is flushed for whoever stored to its mapping. By the letter of the paper nothing was stored.
//@ check: skip (a fragment: it has no main)
//@ prove: skip (a fragment: it has no main)
//@ variant default:
//@ lint: clean, no warnings
//@ variant pedantic: -DPEDANTIC
//@ flags lint: --pedantic
//@ lint: flush-unmodified at range
#include "pmfs.h"

int sync_range(struct super_block *sb, uint64_t from, uint64_t to) {
  while (from < to) {
    uint64_t in_page = from & 4095;
    uint64_t length = 4096 - in_page;
    if (length > to - from)
      length = to - from;
    char *page = pmfs_get_block(sb, from >> 12);
    if (page)
      pmfs_flush_buffer(page + in_page, length, false); // MARK: range
    from += length;
  }
  PERSISTENT_BARRIER();
  return 0;
}
