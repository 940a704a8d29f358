// Without a function recover, main is what runs after a crash; it must end with exit code 0.
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim (exit code 0)
#include <crashproof.h>
struct root {
  long data __attribute__((aligned(64)));
  long flag __attribute__((aligned(64)));
};
static int inconsistent(struct root *root) {
  return root->flag && root->data != 7;
}

int main(void) { // MARK: claim
  struct root *root = crashproof_root(sizeof *root);
  if (crashproof_crashes() && inconsistent(root))
    return 1;
  root->data = 7; // MARK: recovery-fails
  root->flag = 1; // MARK: unflushed-write
  return 0;
}
