// A free list by offsets with an intent word; blocks are handed out and given back.
//@ args: {dir}/blocks
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant init: -DBUG=1
//@ check: recovery-fails at link
//@ lint: unflushed-write at link
//@ variant back: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at back
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK 128
#define BLOCKS 4
#define POOL_SIZE 4096

struct super {
  char magic[8];
  uint64_t free; /* offset of the first free block */
};

struct block {
  uint64_t next;
  char data[BLOCK - 8];
};

static void *pool;

static inline struct super *super(void) { return (struct super *)pool; }
static inline struct block *block_at(uint64_t off) { return off ? (struct block *)((char *)pool + off) : NULL; }
static inline uint64_t offset_of(const void *p) { return (uint64_t)((const char *)p - (const char *)pool); }

static void store_u64(uint64_t *p, uint64_t v) {
  *p = v; // MARK: stored
  _mm_clflushopt(p);
  _mm_sfence();
}

static void format(void) {
  for (int i = 0; i < BLOCKS; i++) {
    struct block *b = block_at(1024 + i * BLOCK);
    b->next = i + 1 < BLOCKS ? 1024 + (i + 1) * BLOCK : 0; // MARK: link
#if BUG != 1
    _mm_clflushopt(b);
#endif
  }
  _mm_sfence();
  store_u64(&super()->free, 1024);
  memcpy(super()->magic, "BLOCKS1", 8);
  _mm_clflushopt(super());
  _mm_sfence();
}

static void *take(void) {
  struct block *b = block_at(super()->free);
  if (!b)
    return NULL;
  store_u64(&super()->free, b->next);
  return b->data;
}

static void give(void *data) {
  struct block *b = (struct block *)((char *)data - offsetof(struct block, data));
#if BUG == 2
  b->next = super()->free; // MARK: back
#else
  store_u64(&b->next, super()->free);
#endif
  store_u64(&super()->free, offset_of(b));
}

static int count_free(void) {
  int n = 0;
  for (struct block *b = block_at(super()->free); b; b = block_at(b->next))
    n++;
  return n;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, POOL_SIZE))
    return 1;
  pool = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED)
    return 1;
  if (memcmp(super()->magic, "BLOCKS1", 8) != 0)
    format();
  assert(count_free() >= BLOCKS - 2); // MARK: claim
  void *a = take(), *b = take();
  if (b)
    give(b);
  if (a)
    give(a);
  return 0;
}
