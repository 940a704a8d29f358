// A leaf of a B+-tree after FAST_FAIR: entries shift to the right one by one, duplicates are skipped, and a split
// makes a sibling that is complete before it is linked.
//@ variant right: -DBUG=0
//@ check: clean
//@ variant bug-1: -DBUG=1
//@ check: fails
//@ variant bug-2: -DBUG=2
//@ check: fails
//@ variant bug-3: -DBUG=3
//@ check: fails

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
  page->entry[at].value = value;
  page->entry[at].key = key;
#if BUG != 1
  crashproof_persist(&page->entry[at], sizeof page->entry[at]);
#endif
  page->count = at + 1;
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
  right->count = ORDER - half;
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
    crashproof_assert(page == root || page->count > 0);
    for (long i = 0; i < page->count; i++)
      crashproof_assert(page->entry[i].value == page->entry[i].key * 10);
  }
  if (crashproof_crashes())
    return 0;
  for (long key = 1; key <= 6; key++)
    insert(root, key, key * 10);
  return 0;
}
