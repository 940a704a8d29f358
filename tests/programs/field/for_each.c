// Callbacks: a visitor changes each item of a table and says whether it is to be written back.
//@ args: {dir}/items
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant flush: -DBUG=1
//@ check: recovery-fails at raise
//@ lint: unflushed-write at raise
//@ variant fence: -DBUG=2
//@ check: recovery-fails at raise
//@ lint: publish-before-persist at raise
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct item {
  uint64_t price;
  uint64_t pad[7];
} item;

typedef struct shop {
  uint64_t generation;
  uint64_t pad[7];
  item items[3];
} shop;

typedef bool (*visitor)(item *, void *);

static void each(shop *s, visitor visit, void *context) {
  for (unsigned i = 0; i < sizeof s->items / sizeof s->items[0]; i++)
    if (visit(&s->items[i], context)) {
#if BUG != 1
      _mm_clflushopt(&s->items[i]);
#endif
    }
#if BUG != 2
  _mm_sfence();
#endif
}

static bool raise(item *i, void *context) {
  uint64_t to = *(uint64_t *)context;
  if (i->price > to)
    return false;
  i->price = to; // MARK: raise
  return true;
}

static bool cheaper(item *i, void *context) {
  uint64_t *least = context;
  if (i->price < *least)
    *least = i->price;
  return false;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(shop)))
    return 1;
  shop *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (s == MAP_FAILED)
    return 1;
  uint64_t least = UINT64_MAX;
  each(s, cheaper, &least);
  assert(least >= s->generation); // MARK: claim
  for (uint64_t g = s->generation + 1; g <= 2; g++) {
    each(s, raise, &g);
    s->generation = g;
    _mm_clflushopt(&s->generation);
    _mm_sfence();
  }
  return 0;
}
