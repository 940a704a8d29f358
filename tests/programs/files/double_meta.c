// Two meta pages that take turns, as in LMDB: data pages are written back first, then the older meta page is replaced.
//@ flags check: --medium disk
//@ args: {dir}/db
//@ prove: skip (prove has no disks)
//@ lint: skip (lint has no disks)
//@ variant good: -DGOOD
//@ check: clean
//@ variant one-msync:
//@ check: fails at DATA
//@ check: fails at DATA_END
//@ variant async: -DASYNC
//@ check: fails at DATA
//@ check: fails at DATA_END
//@ variant one-meta: -DGOOD -DONE_META
//@ check: fails at INVALID
#include <crashproof.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };

struct meta {
  uint64_t magic, turn, root, sum;
};

static char *base;

static struct meta *meta(uint64_t number) { return (struct meta *)(base + number * PAGE); }
static uint64_t *page(uint64_t number) { return (uint64_t *)(base + number * PAGE); }
static int valid(struct meta *m) { return m->magic == 0xdb && m->sum == m->turn * 31 + m->root; }

static struct meta *newest(void) {
  struct meta *a = meta(0), *b = meta(1);
  if (valid(a) && valid(b))
    return a->turn > b->turn ? a : b;
  return valid(a) ? a : valid(b) ? b : 0;
}

static void commit(uint64_t turn) {
  uint64_t root = 2 + turn % (PAGES - 2);
  page(root)[0] = turn; // MARK: DATA
  page(root)[511] = turn; // MARK: DATA_END
#ifdef GOOD
  crashproof_assert(msync(base, PAGE * PAGES, MS_SYNC) == 0);
#elif defined ASYNC
  crashproof_assert(msync(base, PAGE * PAGES, MS_ASYNC) == 0);
#endif
#ifdef ONE_META
  struct meta *m = meta(0);
  m->magic = 0; // MARK: INVALID
#else
  struct meta *m = meta(turn % 2);
#endif
  m->turn = turn, m->root = root, m->sum = turn * 31 + root;
  m->magic = 0xdb;
  crashproof_assert(msync(m, PAGE, MS_SYNC) == 0);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  crashproof_assert(fd >= 0 && ftruncate(fd, PAGE * PAGES) == 0 && fsync(fd) == 0);
  base = mmap(0, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(base != MAP_FAILED);
  struct meta *m = newest();
  uint64_t *created = page(PAGES - 1);
  crashproof_assert(m || !*created);
  if (m)
    crashproof_assert(page(m->root)[0] == m->turn && page(m->root)[511] == m->turn);
  if (crashproof_crashes())
    return 0;
  commit(1);
  *created = 1;
  crashproof_assert(msync(base, PAGE * PAGES, MS_SYNC) == 0);
  commit(2);
  commit(3);
  return 0;
}
