// After a lost store, recovery works longer than a check lets it, and then succeeds.
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails
//@ lint: unflushed-write at unflushed-write
//@ prove: unknown (goes round more than 10000 times)
#include <crashproof.h>

struct line {
  volatile long value;
} __attribute__((aligned(64)));

struct root {
  struct line data, done, work;
};

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (!crashproof_crashes()) {
    root->data.value = 1; // MARK: recovery-fails
    root->done.value = 1;
    crashproof_persist(&root->done, sizeof root->done);
    return 0;
  }
  if (root->done.value && !root->data.value)
    for (long step = 0; step < 1500000; step++)
      root->work.value = step; // MARK: unflushed-write
  return 0;
}
