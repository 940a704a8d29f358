// A pool of 4 MiB of which little is used; the size comes from stat.
//@ args: {dir}/big
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at value
//@ prove: refuted at claim

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

#define POOL_BYTES (4u << 20)

struct header {
  char magic[8];
  uint64_t bytes;
  uint64_t top; /* offset of the next free byte */
};

static char *base;

static void persist(const void *p, size_t n) {
  const char *c = (const char *)((uintptr_t)p & ~63ul);
  for (; c < (const char *)p + n; c += 64)
    _mm_clwb((void *)c);
  _mm_sfence();
}

static char *map_pool(const char *path, size_t *bytes) {
  struct stat st;
  int fd;
  if (stat(path, &st) != 0) {
    if (errno != ENOENT)
      return NULL;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, POOL_BYTES) != 0)
      return NULL;
    *bytes = POOL_BYTES;
  } else {
    fd = open(path, O_RDWR);
    *bytes = (size_t)st.st_size;
    if (*bytes == 0) {
      if (ftruncate(fd, POOL_BYTES) != 0)
        return NULL;
      *bytes = POOL_BYTES;
    }
  }
  char *p = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return p == MAP_FAILED ? NULL : p;
}

static void bump(struct header *h, uint32_t value) {
  uint32_t *p = (uint32_t *)(base + h->top);
  *p = value; // MARK: value
#if BUG != 1
  persist(p, sizeof *p);
#endif
  h->top += sizeof *p; // MARK: top
  persist(&h->top, sizeof h->top);
}

int main(int argc, char **argv) {
  size_t bytes;
  base = map_pool(argc > 1 ? argv[1] : "big", &bytes);
  if (!base) {
    fprintf(stderr, "cannot map\n");
    return 1;
  }
  struct header *h = (struct header *)base;
  if (memcmp(h->magic, "BUMPER1", 8) != 0) {
    h->bytes = bytes;
    h->top = 4096;
    persist(h, sizeof *h);
    memcpy(h->magic, "BUMPER1", 8);
    persist(h, sizeof *h);
  }
  assert(h->bytes == bytes); // MARK: size
  uint32_t n = 0;
  for (uint64_t at = 4096; at < h->top; at += 4) {
    assert(*(uint32_t *)(base + at) == ++n); // MARK: claim
  }
  while (n < 3)
    bump(h, ++n);
  return 0;
}
