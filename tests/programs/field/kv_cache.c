// A hash table with open addressing in a mapped file; a helper opens it, a macro writes back.
//@ args: {dir}/kv
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant value: -DBUG=1
//@ check: recovery-fails at used
//@ check: recovery-fails at used
//@ lint: unflushed-write at copied
//@ lint: unflushed-write at value
//@ lint: unflushed-write at used
//@ variant used: -DBUG=2
//@ check: missing-flush at count
//@ lint: unflushed-write at count
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NBUCKET 8
#define PERSIST(obj)                                                                                         \
  do {                                                                                                       \
    const char *p_ = (const char *)&(obj);                                                                   \
    for (size_t o_ = 0; o_ < sizeof(obj); o_ += 64)                                                          \
      _mm_clwb((void *)(p_ + o_));                                                                           \
    _mm_sfence();                                                                                            \
  } while (0)

struct bucket {
  char key[16];
  uint64_t value;
  uint32_t in_use;
  char pad[36];
};

struct table {
  uint64_t magic;
  uint64_t count;
  char pad[48];
  struct bucket b[NBUCKET];
};

static struct table *open_table(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0644);
  if (fd == -1) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
  }
  if (ftruncate(fd, sizeof(struct table)) == -1)
    exit(1);
  void *p = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED)
    exit(1);
  return p;
}

static unsigned hash(const char *s) {
  unsigned h = 5381;
  while (*s)
    h = h * 33 + (unsigned char)*s++;
  return h;
}

static struct bucket *lookup(struct table *t, const char *key, int create) {
  unsigned h = hash(key) % NBUCKET;
  for (unsigned i = 0; i < NBUCKET; i++) {
    struct bucket *b = &t->b[(h + i) % NBUCKET];
    if (!b->in_use)
      return create ? b : NULL;
    if (strcmp(b->key, key) == 0)
      return b;
  }
  return NULL;
}

static int put(struct table *t, const char *key, uint64_t value) {
  struct bucket *b = lookup(t, key, 1);
  if (b == NULL)
    return -1;
  if (!b->in_use) {
    strcpy(b->key, key); // MARK: copied
    b->value = value; // MARK: value
#if BUG != 1
    PERSIST(*b);
#endif
    b->in_use = 1; // MARK: used
#if BUG == 1
    /* everything is in one line, so the stores persist in order; but nobody says that they persist */
    t->count++;
    PERSIST(t->count);
    return 0;
#endif
    PERSIST(b->in_use);
    t->count++; // MARK: count
#if BUG != 2
    PERSIST(t->count);
#endif
  } else {
    b->value = value;
    PERSIST(b->value);
  }
  return 0;
}

int main(int argc, char **argv) {
  struct table *t = open_table(argv[1]);
  uint64_t used = 0;
  for (int i = 0; i < NBUCKET; i++)
    if (t->b[i].in_use) {
      used++;
      assert(t->b[i].value >= 7);
    }
  assert(t->count <= used); // MARK: claim
  put(t, "one", 7);
  put(t, "two", 8);
  put(t, "one", 9);
  return 0;
}
