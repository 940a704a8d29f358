// Two stores, one barrier.
//@ flags lint: --model strict
//@ check: skip (a fragment: it has no main)
//@ lint: multiple-writes-at-once at multiple-writes-at-once
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
struct inode { uint64_t size; char gap[120]; uint64_t mtime; };
PERSISTENT struct inode inode;
void grow(uint64_t size, uint64_t now) {
  inode.size = size;
  _mm_clwb(&inode.size);
  inode.mtime = now;
  _mm_clwb(&inode.mtime);
  _mm_sfence(); // MARK: multiple-writes-at-once
}
