// A pointer that a variable holds from the start leads to persistent memory like any other.
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: refuted
#include <crashproof.h>

PERSISTENT struct {
  long data __attribute__((aligned(64)));
  long other __attribute__((aligned(64)));
  long done __attribute__((aligned(64)));
} root;
static long *const data = &root.data;
static long *const other = &root.other;

void recover(void) {
  crashproof_assert(!root.done || *data == 1);
}

int main(void) {
  if (crashproof_crashes()) {
    recover();
    return 0;
  }
  *data = 1; // MARK: LOST
  *other = 1;
  crashproof_persist(other, sizeof *other);
  root.done = 1;
  crashproof_persist(&root.done, sizeof root.done);
  return 0;
}
