// Mapping a file makes its size and its name durable at once. That is what a crash leaves as well: at the end of a run that
// does nothing more, and before the next file is created.
//@ flags check: --medium dax --pm-path {dir}
//@ args: {dir}
//@ prove: skip (prove has no files)
//@ lint: skip (what the kernel writes is not followed)
//@ variant good: -DGOOD
//@ check: clean
//@ variant content:
//@ check: fails at SIZED
//@ variant two-good: -DTWO -DGOOD
//@ check: clean
//@ variant two: -DTWO
//@ check: fails at SIZED
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct pool {
  long magic;
  long version;
};

static struct pool *map(const char *path, int flags) {
  int fd = open(path, O_RDWR | flags, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0); // MARK: SIZED
  struct pool *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED);
  close(fd);
  return pool;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  char first[4096], second[4096];
  snprintf(first, sizeof first, "%s/pool", argv[1]);
  snprintf(second, sizeof second, "%s/pool.new", argv[1]);
  struct stat status;
  int found = stat(first, &status) == 0;
#ifdef TWO
#ifdef GOOD
  int again = O_CREAT;
#else
  int again = found ? 0 : O_CREAT; // The first was there, so the second must be.
#endif
  map(first, O_CREAT);
  map(second, again);
#else
  if (!found) {
    struct pool fresh = {.magic = 7};
#ifdef GOOD
    fresh.version = 1;
#endif
    int fd = open(second, O_RDWR | O_CREAT | O_TRUNC, 0600);
    crashproof_assert(fd >= 0 && write(fd, &fresh, sizeof fresh) == sizeof fresh);
    fsync(fd);
    close(fd);
    crashproof_assert(rename(second, first) == 0);
    map(first, 0);
  } else {
    struct pool *pool = map(first, 0);
    crashproof_assert(pool->magic == 7 && pool->version == 1);
  }
#endif
  return 0;
}
