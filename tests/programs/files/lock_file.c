// A lock file that survives the crash keeps recovery out.
//@ flags check: --medium disk
//@ args: {dir}/lock {dir}/data
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant stale-removed: -DGOOD
//@ check: clean
//@ variant stale:
//@ check: recovery-fails-nothing-lost at LOCKED
//@ check: recovery-fails at UNLOCKED
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
#ifdef GOOD
  if (crashproof_crashes())
    unlink(argv[1]);
#endif
  int lock = open(argv[1], O_CREAT | O_EXCL | O_WRONLY, 0644);
  if (lock < 0) {
    fprintf(stderr, "another process has the lock\n");
    return 1;
  }
  int data = open(argv[2], O_CREAT | O_WRONLY | O_APPEND, 0644); // MARK: LOCKED
  crashproof_assert(data >= 0 && write(data, "x", 1) == 1 && fsync(data) == 0);
  crashproof_assert(unlink(argv[1]) == 0); // MARK: UNLOCKED
  return 0;
}
