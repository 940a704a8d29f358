// A B-tree leaf with unsorted entries and a bitmap; a full leaf is split by copying the upper half into a fresh leaf.
//@ args: {dir}/tree
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at line-6
//@ prove: refuted at value
//@ variant bug-2: -DBUG=2
//@ check: clean
//@ prove: proved

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

#define FANOUT 4

typedef struct leaf {
  uint64_t bitmap;
  struct leaf *next;
  uint64_t key[FANOUT];
  uint64_t val[FANOUT];
} __attribute__((aligned(64))) leaf_t;

typedef struct {
  leaf_t *first;
  uint64_t next_leaf;
  leaf_t leaves[4] __attribute__((aligned(64)));
} tree_t;

static tree_t *t;

static void flush(const void *p, size_t n) {
  for (uintptr_t a = (uintptr_t)p & ~63ul; a < (uintptr_t)p + n; a += 64)
    _mm_clwb((void *)a);
}
static void fence(void) { _mm_sfence(); }

static leaf_t *leaf_new(void) {
  leaf_t *l = &t->leaves[t->next_leaf++];
  flush(&t->next_leaf, 8);
  fence();
  return l;
}

static void leaf_put(leaf_t *l, uint64_t key, uint64_t val) {
  int i = 0;
  while (l->bitmap >> i & 1)
    i++;
  l->key[i] = key; // MARK: key
  l->val[i] = val; // MARK: line-6
#if BUG != 1
  flush(&l->key[i], 8);
  flush(&l->val[i], 8);
  fence();
#endif
  l->bitmap |= 1ul << i; // MARK: bit
  flush(&l->bitmap, 8);
  fence();
}

static leaf_t *split(leaf_t *l) {
  leaf_t *right = leaf_new();
  uint64_t median = (l->key[0] + l->key[1] + l->key[2] + l->key[3]) / 4;
  uint64_t moved = 0;
  for (int i = 0; i < FANOUT; i++)
    if (l->key[i] > median)
      moved |= 1ul << i;
  memcpy(right, l, sizeof *l);
  right->bitmap = moved;
  flush(right, sizeof *right);
  fence();
#if BUG == 2
  l->bitmap &= ~moved; // MARK: moved
  flush(&l->bitmap, 8);
  fence();
  l->next = right; // MARK: next
  flush(&l->next, 8);
  fence();
#else
  l->next = right;
  flush(&l->next, 8);
  fence();
  l->bitmap &= ~moved;
  flush(&l->bitmap, 8);
  fence();
#endif
  return right;
}

static int lookup(uint64_t key, uint64_t *val) {
  for (leaf_t *l = t->first; l; l = l->next)
    for (int i = 0; i < FANOUT; i++)
      if ((l->bitmap >> i & 1) && l->key[i] == key) {
        *val = l->val[i];
        return 1;
      }
  return 0;
}

static void insert(uint64_t key, uint64_t val) {
  leaf_t *l = t->first;
  if (l->bitmap == (1ul << FANOUT) - 1 && !l->next)
    split(l);
  while (l->next && l->bitmap == (1ul << FANOUT) - 1)
    l = l->next;
  leaf_put(l, key, val);
}

int main(int argc, char **argv) {
  if (argc < 2)
    exit(2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    exit(2);
  if (ftruncate(fd, sizeof(tree_t)) != 0)
    exit(2);
  t = mmap(NULL, sizeof(tree_t), PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
  if (t == MAP_FAILED)
    t = mmap(NULL, sizeof(tree_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (t == MAP_FAILED)
    exit(2);
  if (t->first == NULL) {
    t->next_leaf = 0;
    leaf_t *l = leaf_new();
    l->bitmap = 0;
    flush(l, sizeof *l);
    fence();
    t->first = l;
    flush(&t->first, 8);
    fence();
    for (uint64_t k = 1; k <= 5; k++)
      insert(k * 10, k);
    return 0;
  }
  uint64_t seen = 0, val = 0;
  for (uint64_t k = 1; k <= 5; k++)
    if (lookup(k * 10, &val)) {
      assert(val == k); // MARK: value
      assert(seen == k - 1); // MARK: hole
      seen = k;
    }
  return 0;
}
