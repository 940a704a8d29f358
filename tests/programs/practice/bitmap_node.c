// A leaf node with a bitmap: an entry is complete before its bit is set.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant entry: -DBUG=1
//@ lint: unflushed-write at key
//@ lint: unflushed-write at value
//@ variant bitmap: -DBUG=2
//@ lint: unflushed-write at bitmap
//@ variant order: -DBUG=3
//@ lint: publish-before-persist at key
//@ lint: publish-before-persist at value
//@ variant remove: -DBUG=4
//@ lint: unflushed-write at clear
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES 14

struct entry {
  uint64_t key;
  uint64_t value;
};

struct leaf {
  uint64_t bitmap;
  uint64_t lock;
  uint64_t pad[6];
  struct entry entries[ENTRIES];
};

static void clflush_range(void *data, int len) {
  volatile char *ptr = (char *)((unsigned long)data & ~63UL);
  _mm_mfence();
  for (; ptr < (char *)data + len; ptr += 64)
    asm volatile("clflush %0" : "+m"(*(volatile char *)ptr));
  _mm_mfence();
}

static struct leaf *leaf_map(const char *name) {
  int fd = open(name, O_RDWR | O_CREAT, 0644);
  if (fd == -1)
    abort();
  if (ftruncate(fd, sizeof(struct leaf)))
    abort();
  void *addr = mmap(0, sizeof(struct leaf), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (addr == MAP_FAILED)
    abort();
  return (struct leaf *)addr;
}

static int find_free(struct leaf *l) {
  for (int i = 0; i < ENTRIES; i++)
    if (!(l->bitmap & (1UL << i)))
      return i;
  return -1;
}

static int insert(struct leaf *l, uint64_t key, uint64_t value) {
  int i = find_free(l);
  if (i < 0)
    return 0;
#if BUG == 3
  l->bitmap |= 1UL << i;
  clflush_range(&l->bitmap, sizeof l->bitmap);
#endif
  l->entries[i].key = key; // MARK: key
  l->entries[i].value = value; // MARK: value
#if BUG != 1
  clflush_range(&l->entries[i], sizeof(struct entry));
#endif
#if BUG != 3
  l->bitmap |= 1UL << i; // MARK: bitmap
#if BUG != 2
  clflush_range(&l->bitmap, sizeof l->bitmap);
#endif
#endif
  return 1;
}

static int delete(struct leaf *l, uint64_t key) {
  for (int i = 0; i < ENTRIES; i++) {
    if ((l->bitmap & (1UL << i)) && l->entries[i].key == key) {
      l->bitmap &= ~(1UL << i); // MARK: clear
#if BUG != 4
      clflush_range(&l->bitmap, sizeof l->bitmap);
#endif
      return 1;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  struct leaf *leaf = leaf_map(argv[1]);
  int used = 0;
  for (int i = 0; i < ENTRIES; i++)
    if (leaf->bitmap & (1UL << i)) {
      assert(leaf->entries[i].value == leaf->entries[i].key * 10);
      used++;
    }
  if (used == 0) {
    insert(leaf, 5, 50);
    insert(leaf, 6, 60);
    delete (leaf, 5);
    insert(leaf, 7, 70);
  }
  return 0;
}
