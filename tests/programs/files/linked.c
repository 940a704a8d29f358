// A new file is linked under its name when it is whole, and the temporary name removed; an older one is kept as a backup.
//@ flags check: --medium disk
//@ args: {dir}/file {dir}/file.tmp
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD
//@ check: clean
//@ variant unsynced:
//@ check: fails at WRITTEN
#include <crashproof.h>
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  long value = 0;
  int fd = open(argv[1], O_RDONLY);
  if (fd >= 0)
    crashproof_assert(read(fd, &value, sizeof value) == sizeof value && value == 42);
  if (crashproof_crashes())
    return 0;
  unlink(argv[2]);
  fd = open(argv[2], O_WRONLY | O_CREAT | O_EXCL, 0644);
  value = 42;
  crashproof_assert(fd >= 0 && write(fd, &value, sizeof value) == sizeof value); // MARK: WRITTEN
#ifdef GOOD
  crashproof_assert(fsync(fd) == 0);
#endif
  crashproof_assert(link(argv[2], argv[1]) == 0 && unlink(argv[2]) == 0);
  return 0;
}
