// Header and payload in one pwritev; the slot is valid when its flag is written after that.
//@ flags check: --medium disk
//@ args: {dir}/slots
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD
//@ check: clean
//@ variant sync-range: -DRANGE
//@ check: fails at PAYLOAD
//@ variant no-sync:
//@ check: fails at PAYLOAD
#define _GNU_SOURCE
#include <crashproof.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  crashproof_assert(fd >= 0);
  long flag = 0, length = 0;
  char text[1024] = "";
  if (pread(fd, &flag, sizeof flag, 0) == sizeof flag && flag == 1) {
    struct iovec parts[2] = {{&length, sizeof length}, {text, sizeof text}};
    crashproof_assert(preadv(fd, parts, 2, 512) == sizeof length + sizeof text);
    crashproof_assert(length == 1023 && text[0] == 'x' && text[1022] == 'x');
  }
  if (crashproof_crashes())
    return 0;
  length = 1023;
  memset(text, 'x', 1023);
  struct iovec parts[2] = {{&length, sizeof length}, {text, sizeof text}};
  crashproof_assert(pwritev(fd, parts, 2, 512) == sizeof length + sizeof text); // MARK: PAYLOAD
#ifdef GOOD
  crashproof_assert(fdatasync(fd) == 0);
#elif defined RANGE
  // Says nothing of durability: the disk may have it in its cache, and the size is not written.
  sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
#endif
  flag = 1;
  crashproof_assert(pwrite(fd, &flag, sizeof flag, 0) == sizeof flag && fdatasync(fd) == 0);
  return 0;
}
