// msync writes back whole pages, however little of them it is given.
//@ args: {dir}/log
//@ prove: skip (written for lint)
//@ variant right:
//@ check: clean
//@ lint: clean, no warnings
//@ variant other-page: -DOTHER_PAGE
//@ check: recovery-fails at entry
//@ lint: unflushed-write at entry
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

struct log {
  long count;
  char apart[PAGE - sizeof(long)];
  long entries[PAGE / sizeof(long)];
};

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 2 * PAGE) != 0)
    return 1;
  struct log *log = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (log == MAP_FAILED)
    return 1;
  for (long i = 0; i < log->count; i++)
    if (log->entries[i] != i + 1)
      abort();
  if (log->count < 3) {
    log->entries[log->count] = log->count + 1; // MARK: entry
#ifndef OTHER_PAGE
    msync(log->entries, sizeof log->entries[0], MS_SYNC);
#endif
    log->count++;
    msync(log, sizeof log->count, MS_SYNC);
  }
  return 0;
}
