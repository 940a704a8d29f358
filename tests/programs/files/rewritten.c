// A small file is opened with O_TRUNC and written again: after a crash it may be empty.
//@ flags check: --medium disk
//@ args: {dir}/counter {dir}/counter.new
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant renamed: -DRENAME
//@ check: clean
//@ variant truncated:
//@ check: fails at WRITTEN
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void save(const char *path, int value) {
  char text[32];
  int length = snprintf(text, sizeof text, "%d\n", value);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  crashproof_assert(fd >= 0 && write(fd, text, (size_t)length) == length); // MARK: WRITTEN
  crashproof_assert(fsync(fd) == 0 && close(fd) == 0);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  char text[32] = "";
  int fd = open(argv[1], O_RDONLY);
  if (fd >= 0) {
    ssize_t count = read(fd, text, sizeof text - 1);
    crashproof_assert(count > 0 && text[count - 1] == '\n' && atoi(text) > 0);
    close(fd);
  }
  if (crashproof_crashes())
    return 0;
  for (int value = 1; value < 3; value++) {
#ifdef RENAME
    save(argv[2], value);
    crashproof_assert(rename(argv[2], argv[1]) == 0);
#else
    save(argv[1], value);
#endif
  }
  return 0;
}
