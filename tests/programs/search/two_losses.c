// Three unflushed stores before the commit. Recovery reads all of them; the loss of the second alone is its undoing,
// and so is that of the first and the third together.
//@ lint: unflushed-write at FIRST
//@ lint: unflushed-write at SECOND
//@ lint: unflushed-write at recovery-fails
//@ prove: refuted (claim can fail)
//@ variant robust:
//@ check: recovery-fails at SECOND
//@ check: recovery-fails at recovery-fails
//@ check: missing-flush at FIRST
//@ variant recovery:
//@ flags check: --no-robust
//@ check: fails at FIRST
//@ check: fails at SECOND
#include <crashproof.h>

struct line {
  volatile long value;
} __attribute__((aligned(64)));

struct root {
  struct line first, second, third, done;
};

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (!crashproof_crashes()) {
    root->first.value = 1;  // MARK: FIRST
    root->second.value = 1; // MARK: SECOND
    root->third.value = 1; // MARK: recovery-fails
    root->done.value = 1;
    crashproof_persist(&root->done, sizeof root->done);
    return 0;
  }
  if (!root->done.value)
    return 0;
  long first = root->first.value, second = root->second.value, third = root->third.value;
  crashproof_assert(second == 1); // MARK: claim-violated
  crashproof_assert(first + third > 0);
  return 0;
}
