// A leaf of a B+-tree after FAST_FAIR: entries shift to the right one by one, duplicates are skipped, and a split
// makes a sibling that is complete before it is linked.
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at recovery-fails
//@ prove: refuted at claim-violated
//@ variant bug-2: -DBUG=2
//@ check: missing-flush at missing-flush
//@ lint: unknown (`main`: its paths take more than 40000 steps)
//@ lint: unflushed-write at missing-flush
//@ prove: proved
//@ variant bug-3: -DBUG=3
//@ check: recovery-fails at recovery-fails-2
//@ lint: unflushed-write at recovery-fails-2
//@ prove: refuted at claim-violated-2

#include <crashproof.h>

#define ORDER 4

struct page {
  struct {
    long key;
    long value;
  } entry[ORDER];
  long count __attribute__((aligned(64)));
  struct page *sibling __attribute__((aligned(64)));
};

static void insert_here(struct page *page, long key, long value) {
  long at = page->count;
  page->entry[at].value = value; // MARK: unflushed-write
  page->entry[at].key = key; // MARK: recovery-fails
#if BUG != 1
  crashproof_persist(&page->entry[at], sizeof page->entry[at]);
#endif
  page->count = at + 1; // MARK: missing-flush
#if BUG != 2
  crashproof_persist(&page->count, sizeof page->count);
#endif
}

static void split(struct page *page) {
  struct page *right = crashproof_alloc(sizeof *right);
  long half = ORDER / 2;
  for (long i = half; i < ORDER; i++) {
    right->entry[i - half].key = page->entry[i].key;
    right->entry[i - half].value = page->entry[i].value;
  }
  right->count = ORDER - half; // MARK: recovery-fails-2
  right->sibling = page->sibling;
#if BUG != 3
  crashproof_persist(right, sizeof *right);
#else
  crashproof_persist(right->entry, sizeof right->entry);
  crashproof_persist(&right->sibling, sizeof right->sibling);
#endif
  page->sibling = right;
  crashproof_persist(&page->sibling, sizeof page->sibling);
  page->count = half;
  crashproof_persist(&page->count, sizeof page->count);
}

static void insert(struct page *page, long key, long value) {
  while (page->sibling && page->sibling->entry[0].key <= key)
    page = page->sibling;
  if (page->count == ORDER) {
    split(page);
    if (page->sibling->entry[0].key <= key)
      page = page->sibling;
  }
  insert_here(page, key, value);
}

int main(void) {
  struct page *root = crashproof_root(sizeof *root);
  for (struct page *page = root; page; page = page->sibling) {
    crashproof_assert(page->count <= ORDER);
    crashproof_assert(page == root || page->count > 0); // MARK: claim-violated-2
    for (long i = 0; i < page->count; i++)
      crashproof_assert(page->entry[i].value == page->entry[i].key * 10); // MARK: claim-violated
  }
  if (crashproof_crashes())
    return 0;
  for (long key = 1; key <= 6; key++)
    insert(root, key, key * 10);
  return 0;
}
