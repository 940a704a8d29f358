// One barrier for each store: what strict persistency asks for.
//@ flags lint: --model strict
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
struct inode { uint64_t size; char gap[120]; uint64_t mtime; };
PERSISTENT struct inode inode;
void grow(uint64_t size, uint64_t now) {
  inode.size = size;
  _mm_clwb(&inode.size);
  _mm_sfence();
  inode.mtime = now;
  _mm_clwb(&inode.mtime);
  _mm_sfence();
}
