// A key-value table in a mapped file; a helper returns the pointer.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant slot: -DBUG=1
//@ lint: unflushed-write at key
//@ lint: unflushed-write at value
//@ variant count: -DBUG=2
//@ lint: unflushed-write at count
//@ variant pointer: -DBUG=3
//@ lint: unflushed-write at key
//@ lint: unflushed-write at value
//@ variant late: -DBUG=4
//@ lint: publish-before-persist at key
//@ lint: publish-before-persist at value
//@ variant both: -DBUG=5
//@ lint: unflushed-write at key
//@ lint: unflushed-write at value
//@ lint: unflushed-write at count
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 32

struct slot {
  uint64_t key;
  char value[56];
};

struct table {
  uint64_t magic;
  uint64_t count;
  char pad[48];
  struct slot slots[SLOTS];
};

static void persist(const void *p, size_t n) {
  uintptr_t line = (uintptr_t)p & ~(uintptr_t)63;
  for (; line < (uintptr_t)p + n; line += 64)
    _mm_clflush((void *)line);
  _mm_sfence();
}

static struct table *open_pool(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0644);
  if (fd < 0) {
    perror("open");
    exit(1);
  }
  if (ftruncate(fd, sizeof(struct table)) != 0)
    exit(1);
  struct table *t = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (t == MAP_FAILED) {
    perror("mmap");
    exit(1);
  }
  close(fd);
  return t;
}

static int put(struct table *t, uint64_t key, const char *value) {
  if (t->count == SLOTS)
    return -1;
  struct slot *s = &t->slots[t->count];
#if BUG == 4
  t->count++;
  persist(&t->count, sizeof t->count);
#endif
  s->key = key; // MARK: key
  strncpy(s->value, value, sizeof s->value - 1); // MARK: value
#if BUG == 3
  persist(&s, sizeof s);
#elif BUG != 1 && BUG != 5
  persist(s, sizeof *s);
#endif
#if BUG != 4
  t->count++; // MARK: count
#if BUG != 2 && BUG != 5
  persist(&t->count, sizeof t->count);
#endif
#endif
  return 0;
}

int main(int argc, char **argv) {
  struct table *t = open_pool(argc > 1 ? argv[1] : "pool");
  for (uint64_t i = 0; i < t->count; i++) {
    assert(t->slots[i].key == 100 + i);
    assert(strcmp(t->slots[i].value, "hello") == 0);
  }
  for (uint64_t i = t->count; i < 3; i++)
    if (put(t, 100 + i, "hello") != 0)
      return 1;
  return 0;
}
