// A helper stores 1, 2, 4 or 8 bytes at once, and nothing for other sizes: what its caller flushes is not modified.
//@ check: skip (a fragment: it has no main)
//@ lint: flush-unmodified at nothing
//@ prove: skip (a fragment: it has no main)
#include "pmfs.h"

static void store_at_once(void *to, const void *from, uint8_t size) {
  switch (size) {
  case 1:
    *(volatile uint8_t *)to = *(const uint8_t *)from;
    break;
  case 2:
    *(volatile uint16_t *)to = *(const uint16_t *)from;
    break;
  case 4:
    *(volatile uint32_t *)to = *(const uint32_t *)from;
    break;
  case 8:
    *(volatile uint64_t *)to = *(const uint64_t *)from;
    break;
  }
}

struct times {
  uint64_t mounted;
  uint64_t written;
};

void mount(struct super_block *sb, uint64_t now) {
  struct times *times = pmfs_get_super(sb);
  store_at_once(&times->written, &now, 6);
  pmfs_flush_buffer(&times->written, 8, true); // MARK: nothing
}
