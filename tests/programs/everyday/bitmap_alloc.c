// A bitmap allocator with objects that name their owner; a bit is set after the object is complete, cleared before it is
// torn down.
//@ args: {dir}/heap
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at line-6
//@ check: recovery-fails at owner
//@ prove: refuted at filled
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails-nothing-lost at disowned
//@ prove: refuted at owned

#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

#define NBLOCKS 64
#define BLOCK 64

struct block {
  uint32_t owner;
  uint32_t size;
  uint8_t data[56];
};

struct heap {
  uint64_t bitmap[NBLOCKS / 64];
  uint8_t pad[64 - NBLOCKS / 8];
  struct block block[NBLOCKS];
};

static struct heap *h;

static void flush_range(const void *p, size_t n) {
  uintptr_t a = (uintptr_t)p & ~(uintptr_t)63, e = (uintptr_t)p + n;
  for (; a < e; a += 64)
    _mm_clwb((void *)a);
}

static int find_free(void) {
  for (int w = 0; w < NBLOCKS / 64; w++)
    if (~h->bitmap[w])
      return w * 64 + __builtin_ctzll(~h->bitmap[w]);
  return -1;
}

static struct block *balloc(uint32_t owner, uint32_t size) {
  int i = find_free();
  if (i < 0)
    return NULL;
  struct block *b = &h->block[i];
  b->owner = owner; // MARK: owner
  b->size = size;
  memset(b->data, (int)owner, size); // MARK: line-6
#if BUG != 1
  flush_range(b, sizeof *b);
  _mm_sfence();
#endif
  h->bitmap[i / 64] |= 1ull << (i % 64); // MARK: set
  flush_range(&h->bitmap[i / 64], 8);
  _mm_sfence();
  return b;
}

static void bfree(struct block *b) {
  long i = b - h->block;
#if BUG == 2
  b->owner = 0; // MARK: disowned
  flush_range(b, sizeof *b);
  _mm_sfence();
#endif
  h->bitmap[i / 64] &= ~(1ull << (i % 64)); // MARK: unset
  flush_range(&h->bitmap[i / 64], 8);
  _mm_sfence();
}

int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "heap.pm", O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
  if (fd < 0)
    return EXIT_FAILURE;
  if (posix_fallocate(fd, 0, sizeof *h) != 0)
    return EXIT_FAILURE;
  h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (h == MAP_FAILED)
    return EXIT_FAILURE;
  for (int i = 0; i < NBLOCKS; i++) {
    if (!(h->bitmap[i / 64] >> (i % 64) & 1))
      continue;
    struct block *b = &h->block[i];
    assert(b->owner != 0 && b->size <= sizeof b->data); // MARK: owned
    for (uint32_t k = 0; k < b->size; k++)
      assert(b->data[k] == (uint8_t)b->owner); // MARK: filled
  }
  struct block *a = balloc(1, 2);
  struct block *b = balloc(2, 4);
  if (a)
    bfree(a);
  struct block *c = balloc(3, 3);
  (void)b, (void)c;
  return EXIT_SUCCESS;
}
