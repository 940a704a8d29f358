// A missing flush after a strand whose loads are recorded only if strands are checked.
//@ flags check: --model strand
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: skip (strands are checked only)
#include <crashproof.h>

struct line {
  volatile long value;
} __attribute__((aligned(64)));

struct root {
  struct line first, data, done;
};

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (crashproof_crashes())
    return root->done.value && !root->data.value ? 3 : 0;
  root->first.value = 1;
  crashproof_persist(&root->first, sizeof root->first);
  crashproof_strand_begin();
  for (int i = 0; i < 10; i++)
    (void)root->first.value;
  crashproof_strand_end();
  root->data.value = 1; // MARK: LOST
  root->done.value = 1;
  crashproof_persist(&root->done, sizeof root->done);
  return 0;
}
