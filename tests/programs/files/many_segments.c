// A log in more segments than anyone lists by hand: the bug is in the last one, and all of them are found.
//@ args: {dir}/segment
//@ prove: skip (prove has no files)
//@ lint: unflushed-write at LOST
//@ check: recovery-fails at LOST
//@ variant good: -DGOOD
//@ check: clean
//@ lint: clean
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SEGMENTS = 70 };

struct segment {
  long value;
  long apart[7];
  long valid;
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  for (int i = 0; i < SEGMENTS; i++) {
    char path[256];
    snprintf(path, sizeof path, "%s.%d", argv[1], i);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
    struct segment *segment = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    crashproof_assert(segment != MAP_FAILED && close(fd) == 0);
    if (i < SEGMENTS - 1)
      continue;
    crashproof_assert(!segment->valid || segment->value == 7);
    segment->value = 7; // MARK: LOST
#ifdef GOOD
    crashproof_persist(&segment->value, sizeof segment->value);
#endif
    segment->valid = 1;
    crashproof_persist(&segment->valid, sizeof segment->valid);
  }
  return 0;
}
