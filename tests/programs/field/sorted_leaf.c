// A sorted leaf: entries go to free cells, an order array of bytes is replaced in one word.
//@ args: {dir}/leaf
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: redundant-flush at twice
//@ variant entry: -DBUG=1
//@ check: recovery-fails at entry
//@ check: recovery-fails at key
//@ lint: unflushed-write at key
//@ lint: unflushed-write at entry
//@ variant order: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at order
//@ lint: redundant-flush at twice
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct leaf {
  union {
    uint64_t word;
    uint8_t order[8]; /* [0] is the count, then cell numbers in order of keys */
  } slot;
  uint64_t fill[7];
  struct {
    uint64_t key, value;
  } cell[7];
};

#define flush_one(p) _mm_clwb((void *)(p))
#define commit_all() _mm_sfence()

static int unused_cell(const struct leaf *l) {
  unsigned used = 0;
  for (int i = 1; i <= l->slot.order[0]; i++)
    used |= 1u << l->slot.order[i];
  for (int c = 0; c < 7; c++)
    if (!(used & (1u << c)))
      return c;
  return -1;
}

static int leaf_insert(struct leaf *l, uint64_t key, uint64_t value) {
  int c = unused_cell(l);
  if (c < 0)
    return -1;
  l->cell[c].key = key; // MARK: key
  l->cell[c].value = value; // MARK: entry
#if BUG != 1
  flush_one(&l->cell[c].key);
  flush_one(&l->cell[c].value); // MARK: twice
  commit_all();
#endif
  struct leaf copy;
  copy.slot.word = l->slot.word;
  int n = copy.slot.order[0], at = n + 1;
  while (at > 1 && l->cell[copy.slot.order[at - 1]].key > key) {
    copy.slot.order[at] = copy.slot.order[at - 1];
    at--;
  }
  copy.slot.order[at] = (uint8_t)c;
  copy.slot.order[0] = (uint8_t)(n + 1);
  l->slot.word = copy.slot.word; // MARK: order
#if BUG != 2
  flush_one(&l->slot.word);
  commit_all();
#endif
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 4096))
    return 1;
  struct leaf *l = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (l == MAP_FAILED)
    return 1;
  for (int i = 1; i <= l->slot.order[0]; i++) {
    assert(l->cell[l->slot.order[i]].value == l->cell[l->slot.order[i]].key * 2);
    assert(l->cell[l->slot.order[i]].key != 0); // MARK: claim
  }
  if (l->slot.order[0] == 0) {
    leaf_insert(l, 30, 60);
    leaf_insert(l, 10, 20);
  }
  return 0;
}
