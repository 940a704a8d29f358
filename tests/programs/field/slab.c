// A slab allocator: a bitmap word per slab, objects of one size behind it; the owner link is set last.
//@ args: {dir}/slab
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant payload: -DBUG=1
//@ check: recovery-fails at payload
//@ lint: unflushed-write at payload
//@ variant bitmap: -DBUG=2
//@ check: recovery-fails at bit
//@ lint: unflushed-write at bit
#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
  uint64_t payload[8];
} object_t;

typedef struct {
  uint64_t bitmap;
  uint64_t reserved[7];
  object_t objects[4];
} slab_t;

typedef struct {
  uint64_t root; /* 1 + index of the object, 0: none */
  uint64_t reserved[7];
  slab_t slabs[2];
} heap_t;

static inline void wb(const volatile void *a) { __builtin_ia32_clflushopt((const void *)a); }
static inline void barrier(void) { __builtin_ia32_sfence(); }
static void wb_range(const void *start, size_t n) {
  const char *p = (const char *)((uintptr_t)start & ~(uintptr_t)63);
  const char *e = (const char *)start + n;
  while (p < e) {
    wb(p);
    p += 64;
  }
  barrier();
}

static heap_t *heap;

static object_t *slab_alloc(unsigned *number) {
  for (unsigned s = 0; s < 2; s++) {
    slab_t *slab = heap->slabs + s;
    for (unsigned i = 0; i < 4; i++) {
      if (slab->bitmap & (1ull << i))
        continue;
      slab->bitmap |= 1ull << i; // MARK: bit
#if BUG != 2
      wb_range(&slab->bitmap, sizeof slab->bitmap);
#endif
      *number = s * 4 + i;
      return &slab->objects[i];
    }
  }
  return NULL;
}

static bool store_root(uint64_t seed) {
  unsigned number;
  object_t *o = slab_alloc(&number);
  if (!o)
    return false;
  for (int i = 0; i < 8; i++)
    o->payload[i] = seed + i; // MARK: payload
#if BUG != 1
  wb_range(o, sizeof *o);
#endif
  heap->root = number + 1;
  wb_range(&heap->root, sizeof heap->root);
  return true;
}

static void verify(void) {
  if (heap->root == 0)
    return;
  unsigned n = heap->root - 1;
  slab_t *slab = &heap->slabs[n / 4];
  assert(slab->bitmap & (1ull << (n % 4))); // MARK: owned
  uint64_t first = slab->objects[n % 4].payload[0];
  assert(first != 0);
  for (int i = 1; i < 8; i++)
    assert(slab->objects[n % 4].payload[i] == first + i); // MARK: claim
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_CREAT | O_RDWR, 0600);
  if (fd < 0)
    return 1;
  if (ftruncate(fd, sizeof(heap_t)) < 0)
    return 1;
  heap = (heap_t *)mmap(0, sizeof(heap_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (heap == (void *)-1)
    return 1;
  verify();
  return store_root(100) && store_root(200) ? 0 : 0;
}
