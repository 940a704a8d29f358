// A tree of pages that are never overwritten; the root pointer is written when the new pages are durable. The file grows.
//@ flags check: --medium disk
//@ args: {dir}/tree
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD
//@ check: clean
//@ variant root-first:
//@ check: fails at LEAF
#include <crashproof.h>
#include <fcntl.h>
#include <unistd.h>

enum { PAGE = 4096 };
struct page {
  long kind, key, child;
};

static long append(int fd, struct page page) {
  off_t end = lseek(fd, 0, SEEK_END);
  off_t at = (end + PAGE - 1) / PAGE * PAGE;
  crashproof_assert(pwrite(fd, &page, sizeof page, at) == sizeof page); // MARK: LEAF
  return at / PAGE;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  crashproof_assert(fd >= 0);
  long root = 0;
  struct page page;
  if (pread(fd, &root, sizeof root, 0) == sizeof root && root) {
    crashproof_assert(pread(fd, &page, sizeof page, root * PAGE) == sizeof page && page.kind == 2);
    crashproof_assert(pread(fd, &page, sizeof page, page.child * PAGE) == sizeof page && page.kind == 1);
  }
  if (crashproof_crashes())
    return 0;
  root = 0;
  crashproof_assert(pwrite(fd, &root, sizeof root, 0) == sizeof root && fsync(fd) == 0);
  for (long key = 1; key < 3; key++) {
    long leaf = append(fd, (struct page){1, key, 0});
    root = append(fd, (struct page){2, key, leaf});
#ifdef GOOD
    crashproof_assert(fdatasync(fd) == 0);
#endif
    crashproof_assert(pwrite(fd, &root, sizeof root, 0) == sizeof root && fdatasync(fd) == 0);
  }
  return 0;
}
