// A write-ahead log whose pool is described by a structure on the heap.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant payload: -DBUG=1
//@ lint: unflushed-write at header
//@ lint: unflushed-write at header2
//@ lint: unflushed-write at payload
//@ variant little: -DBUG=2
//@ lint: unflushed-write at payload
//@ variant commit: -DBUG=3
//@ lint: unflushed-write at commit
//@ variant early: -DBUG=4
//@ lint: unflushed-write at header
//@ lint: unflushed-write at header2
//@ lint: unflushed-write at payload
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAL_SIZE (64 * 1024)

struct wal_header {
  uint64_t committed;
  uint64_t pad[7];
};

struct wal_entry {
  uint32_t len;
  uint32_t crc;
  unsigned char data[];
};

struct wal {
  int fd;
  size_t size;
  struct wal_header *header;
  unsigned char *area;
};

static inline void wal_flush(const void *addr, size_t len) {
  const char *p = (const char *)((uintptr_t)addr & ~63UL);
  const char *end = (const char *)addr + len;
  while (p < end) {
    _mm_clwb((void *)p);
    p += 64;
  }
}

static inline void wal_fence(void) { _mm_sfence(); }

static uint32_t crc(const unsigned char *p, size_t n) {
  uint32_t sum = 17;
  while (n--)
    sum = sum * 31 + *p++;
  return sum;
}

static struct wal *wal_open(const char *path) {
  struct wal *w = calloc(1, sizeof *w);
  if (!w)
    return NULL;
  w->fd = open(path, O_RDWR | O_CREAT, 0600);
  if (w->fd < 0)
    goto fail;
  if (ftruncate(w->fd, WAL_SIZE) < 0)
    goto fail;
  w->size = WAL_SIZE;
  void *base = mmap(NULL, w->size, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
  if (base == MAP_FAILED)
    goto fail;
  w->header = base;
  w->area = (unsigned char *)base + sizeof(struct wal_header);
  return w;
fail:
  free(w);
  return NULL;
}

static int wal_append(struct wal *w, const void *data, uint32_t len) {
  uint64_t at = w->header->committed;
  if (at + sizeof(struct wal_entry) + len > w->size - sizeof(struct wal_header))
    return -ENOSPC;
  struct wal_entry *e = (struct wal_entry *)(w->area + at);
  e->len = len; // MARK: header
  e->crc = crc(data, len); // MARK: header2
  memcpy(e->data, data, len); // MARK: payload
#if BUG == 4
  if (len > 100)
    return -EINVAL;
#endif
#if BUG == 2
  wal_flush(e, sizeof *e);
  wal_fence();
#elif BUG != 1
  wal_flush(e, sizeof *e + len);
  wal_fence();
#endif
  w->header->committed = at + ((sizeof *e + len + 7) & ~7UL); // MARK: commit
#if BUG != 3
  wal_flush(&w->header->committed, sizeof w->header->committed);
  wal_fence();
#endif
  return 0;
}

static void wal_verify(struct wal *w) {
  uint64_t at = 0;
  while (at < w->header->committed) {
    struct wal_entry *e = (struct wal_entry *)(w->area + at);
    assert(e->crc == crc(e->data, e->len));
    at += (sizeof *e + e->len + 7) & ~7UL;
  }
}

int main(int argc, char **argv) {
  struct wal *w = wal_open(argv[1]);
  if (!w)
    return 1;
  wal_verify(w);
  if (w->header->committed == 0) {
    char text[100];
    memset(text, 'x', sizeof text);
    wal_append(w, "short", 5);
    wal_append(w, text, argc > 5 ? (uint32_t)argc * 50 : (uint32_t)sizeof text);
  }
  return 0;
}
