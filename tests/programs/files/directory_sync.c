// A renamed file is announced elsewhere: the new name must be durable before, by fsync of the directory.
//@ flags check: --medium disk
//@ cflags: '-DDIRECTORY="{dir}"'
//@ args: {dir}/state {dir}/state.new {dir}/announced
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD
//@ check: clean
//@ variant no-directory-sync:
//@ check: fails at RENAMED
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void put(const char *path, long value) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  crashproof_assert(fd >= 0 && write(fd, &value, sizeof value) == sizeof value && fsync(fd) == 0 && close(fd) == 0);
}

static long get(const char *path) {
  long value = 0;
  int fd = open(path, O_RDONLY);
  if (fd < 0)
    return 0;
  if (read(fd, &value, sizeof value) != sizeof value)
    value = 0;
  close(fd);
  return value;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 4);
  crashproof_assert(get(argv[1]) >= get(argv[3]));
  if (crashproof_crashes())
    return 0;
  int announced = open(argv[3], O_WRONLY | O_CREAT, 0644);
  crashproof_assert(announced >= 0 && fsync(announced) == 0);
  for (long version = 1; version < 3; version++) {
    put(argv[2], version);
    crashproof_assert(rename(argv[2], argv[1]) == 0); // MARK: RENAMED
#ifdef GOOD
    int directory = open(DIRECTORY, O_RDONLY | O_DIRECTORY);
    crashproof_assert(directory >= 0 && fsync(directory) == 0 && close(directory) == 0);
#endif
    crashproof_assert(pwrite(announced, &version, sizeof version, 0) == sizeof version && fsync(announced) == 0);
  }
  return 0;
}
