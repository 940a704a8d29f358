// A page of 4096 bytes with a checksum is written over itself: its sectors survive one by one. A copy beside it helps.
//@ flags check: --medium disk
//@ args: {dir}/pages
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant doublewrite: -DCOPY
//@ check: clean
//@ variant torn:
//@ check: fails at PAGE
//@ variant one-sector: -DBYTES=512
//@ check: clean
#include <crashproof.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#ifndef BYTES
#define BYTES 2048
#endif

struct page {
  char content[BYTES - 8];
  long sum;
};

static long sum(const struct page *page) {
  long all = 1;
  for (size_t i = 0; i < sizeof page->content; i++)
    all = all * 31 + page->content[i];
  return all;
}

static int get(int fd, off_t at, struct page *page) {
  return pread(fd, page, sizeof *page, at) == sizeof *page && page->sum == sum(page);
}

static void put(int fd, off_t at, const struct page *page) {
  crashproof_assert(pwrite(fd, page, sizeof *page, at) == sizeof *page); // MARK: PAGE
  crashproof_assert(fsync(fd) == 0);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  struct page page;
  crashproof_assert(fd >= 0);
  if (crashproof_crashes()) {
    long created = 0;
    if (pread(fd, &created, sizeof created, 16384) == sizeof created && created)
      crashproof_assert(get(fd, 0, &page) || get(fd, 8192, &page));
    return 0;
  }
  long created = 1;
  memset(page.content, 'a', sizeof page.content);
  page.sum = sum(&page);
  put(fd, 0, &page);
  crashproof_assert(pwrite(fd, &created, sizeof created, 16384) == sizeof created && fsync(fd) == 0);
  memset(page.content, 'b', sizeof page.content);
  page.sum = sum(&page);
#ifdef COPY
  put(fd, 8192, &page);
#endif
  put(fd, 0, &page);
  return 0;
}
