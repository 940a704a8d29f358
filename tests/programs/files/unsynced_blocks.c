// Blocks of four cache lines are written without fsync: sectors survive in any order, so a later block may be there without
// an earlier one. What one `write` stores to a sector survives as a whole, at whatever instant the crash falls.
//@ flags check: --medium disk
//@ args: {dir}/blocks
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant synced: -DSYNC
//@ check: clean
//@ variant unsynced:
//@ check: fails at WRITTEN
#include <crashproof.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 40, BYTES = 256 };

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  char block[BYTES];
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  crashproof_assert(fd >= 0);
  int missing = 0;
  for (int number = 0; number < BLOCKS; number++) {
    memset(block, 0, sizeof block);
    pread(fd, block, sizeof block, number * BYTES);
    // It is there from its first byte to its last.
    crashproof_assert(block[0] == block[BYTES / 2] && block[0] == block[BYTES - 1]);
    missing |= block[0] == 0;
    crashproof_assert(block[0] == 0 || !missing);
  }
  if (crashproof_crashes())
    return 0;
  for (int number = 0; number < BLOCKS; number++) {
    memset(block, number + 1, sizeof block);
    crashproof_assert(pwrite(fd, block, sizeof block, number * BYTES) == BYTES); // MARK: WRITTEN
#ifdef SYNC
    crashproof_assert(fsync(fd) == 0);
#endif
  }
  return fsync(fd);
}
