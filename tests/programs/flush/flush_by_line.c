// A line is flushed by any address in it, also by one in front of what was stored.
//@ check: skip (it needs libpmemobj itself)
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include "pmemobj.h"
#include <immintrin.h>
struct root {
  long data[7], valid;
};
static void flush(const void *start, size_t bytes) {
  for (uintptr_t line = (uintptr_t)start & ~(uintptr_t)63; line < (uintptr_t)start + bytes; line += 64)
    _mm_clwb((void *)line);
  _mm_sfence();
}
int main(void) {
  struct root *root = begin(sizeof *root);
  root->data[0] = 1;
  flush(root, sizeof root->data[0]);
  root->valid = 1; // MARK: unflushed-write
  return 0;
}
void recover(void) {
  struct root *root = find(sizeof *root);
  if (root && root->valid)
    crashproof_assert(root->data[0] == 1);
}
