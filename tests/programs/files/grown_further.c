// Recovery lets the file grow as far as a header says and reads what it got, which is zero. How far other recoveries have let
// it grow must not change what this one is seen to read: they would not look repeatable.
//@ args: {dir}/pool
//@ prove: skip (prove has no files)
//@ lint: skip (what a file's size means is not known to lint)
//@ variant existing:
//@ check: clean
//@ variant new-file: -DNEW_FILE
//@ check: clean
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096L

struct header {
  long pages;
  long line[7];
  long more;
};

// Sums up what is behind the first page, in the file itself or in one of its own.
static long grown(const char *path, int pool, long pages) {
#ifdef NEW_FILE
  char other[600];
  snprintf(other, sizeof other, "%s.%s", path, "scratch");
  int fd = open(other, O_RDWR | O_CREAT, 0600);
  (void)pool;
#else
  int fd = pool;
  (void)path;
#endif
  crashproof_assert(fd >= 0 && ftruncate(fd, (pages + 1) * PAGE) == 0);
  const long *all = mmap(0, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(all != MAP_FAILED);
  long sum = 0;
  for (long at = 1; at <= pages; at++)
    sum += all[at * PAGE / (long)sizeof(long)];
  return sum;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, PAGE) == 0);
  struct header *header = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(header != MAP_FAILED);
  if (crashproof_crashes() > 0) {
    long pages = header->pages;
    crashproof_assert(grown(argv[1], fd, pages) == 0);
    crashproof_assert(header->more == 0 || pages == 1);
    return 0;
  }
  static const long sizes[] = {1, 3, 1000, 1};
  for (int at = 0; at < 4; at++) {
    header->pages = sizes[at];
    crashproof_persist(&header->pages, sizeof header->pages);
  }
  for (long more = 1; more <= 3; more++) {
    header->more = more;
    crashproof_persist(&header->more, sizeof header->more);
  }
  return 0;
}
