// An open-addressing hash table; the pool comes from a helper that returns the pointer.
//@ args: {dir}/table
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant value: -DBUG=1
//@ check: recovery-fails at value
//@ lint: unflushed-write at value
//@ variant count: -DBUG=2
//@ check: recovery-fails at count
//@ lint: unflushed-write at count
//@ variant order: -DBUG=3
//@ check: recovery-fails at value
//@ lint: publish-before-persist at value
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NSLOTS 16

struct slot {
  uint64_t key;
  char pad[56];
  uint64_t value;
  char pad2[56];
};

struct table {
  uint64_t count;
  char pad[56];
  struct slot slots[NSLOTS];
};

static void persist(const void *addr, size_t len) {
  uintptr_t p = (uintptr_t)addr & ~(uintptr_t)63;
  for (; p < (uintptr_t)addr + len; p += 64)
    _mm_clflushopt((void *)p);
  _mm_sfence();
}

static struct table *open_table(const char *path) {
  int fd = open(path, O_CREAT | O_RDWR, 0644);
  if (fd == -1) {
    perror(path);
    exit(1);
  }
  struct stat st;
  if (fstat(fd, &st) == 0 && st.st_size < (off_t)sizeof(struct table))
    if (ftruncate(fd, sizeof(struct table)) != 0)
      exit(1);
  void *p = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED)
    exit(1);
  return p;
}

static uint64_t hash(uint64_t k) { return (k * 0x9E3779B97F4A7C15ull) >> 32; }

static int table_put(struct table *t, uint64_t key, uint64_t value) {
  for (unsigned i = 0; i < NSLOTS; i++) {
    struct slot *s = &t->slots[(hash(key) + i) % NSLOTS];
    if (s->key != 0 && s->key != key)
      continue;
    s->value = value; // MARK: value
#if BUG == 3
    s->key = key;
    persist(&s->key, sizeof s->key);
    persist(&s->value, sizeof s->value);
#else
#if BUG != 1
    persist(&s->value, sizeof s->value);
#endif
    s->key = key;
    persist(&s->key, sizeof s->key);
#endif
    t->count++; // MARK: count
#if BUG != 2
    persist(&t->count, sizeof t->count);
#endif
    return 0;
  }
  return -1;
}

int main(int argc, char **argv) {
  struct table *t = open_table(argv[1]);
  unsigned used = 0;
  for (int i = 0; i < NSLOTS; i++)
    if (t->slots[i].key != 0) {
      assert(t->slots[i].value == t->slots[i].key * 10);
      used++;
    }
  assert(used == t->count || used == t->count + 1);
  if (used != t->count) {
    t->count = used;
    persist(&t->count, sizeof t->count);
  }
  for (uint64_t k = used + 1; k <= 4; k++)
    if (table_put(t, k, k * 10))
      return 1;
  return 0;
}
