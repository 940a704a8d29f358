// A bitmap allocator and objects that are filled before they are linked.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant bitmap: -DBUG=1
//@ lint: unflushed-write at bitmap
//@ variant content: -DBUG=2
//@ lint: unflushed-write at content
//@ variant link: -DBUG=3
//@ lint: unflushed-write at link
//@ variant content-link: -DBUG=4
//@ lint: unflushed-write at content
//@ lint: unflushed-write at link
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK 256
#define BLOCKS 64

typedef struct heap {
  uint64_t bitmap;
  uint8_t pad0[56];
  uint64_t objects[8];
  uint8_t blocks[BLOCKS][BLOCK];
} heap_t;

#define pwb(p) _mm_clflushopt((void *)(p))
#define pfence() _mm_sfence()

static void psync(const void *p, size_t len) {
  const char *c = (const char *)((uintptr_t)p & -64);
  for (; c < (const char *)p + len; c += 64)
    pwb(c);
  pfence();
}

heap_t *heap_open(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    return NULL;
  if (ftruncate(fd, sizeof(heap_t)) != 0)
    return NULL;
  heap_t *h = (heap_t *)mmap(NULL, sizeof(heap_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (h == (heap_t *)MAP_FAILED)
    return NULL;
  return h;
}

void *heap_alloc(heap_t *h) {
  int bit = __builtin_ffsll(~h->bitmap) - 1;
  if (bit < 0)
    return NULL;
  h->bitmap |= 1ull << bit; // MARK: bitmap
#if BUG != 1
  psync(&h->bitmap, sizeof h->bitmap);
#endif
  return h->blocks[bit];
}

uint64_t heap_offset(heap_t *h, void *p) { return (uint64_t)((char *)p - (char *)h); }

int heap_store(heap_t *h, int slot, const char *text) {
  char *p = heap_alloc(h);
  if (!p)
    return -1;
  strcpy(p, text); // MARK: content
#if BUG != 2 && BUG != 4
  psync(p, strlen(text) + 1);
#endif
  h->objects[slot] = heap_offset(h, p); // MARK: link
#if BUG != 3 && BUG != 4
  psync(&h->objects[slot], sizeof h->objects[slot]);
#endif
  return 0;
}

int main(int argc, char **argv) {
  heap_t *h = heap_open(argv[1]);
  if (!h)
    return 1;
  int found = 0;
  for (int i = 0; i < 8; i++)
    if (h->objects[i]) {
      uint64_t block = (h->objects[i] - ((char *)h->blocks - (char *)h)) / BLOCK;
      assert(h->bitmap & (1ull << block));
      assert(strncmp((char *)h + h->objects[i], "text", 4) == 0);
      found++;
    }
  if (!found) {
    heap_store(h, 0, "text zero");
    heap_store(h, 1, "text one");
  }
  return 0;
}
