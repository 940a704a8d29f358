// An append-only file of text records of different lengths; the reader compares text and its final NUL in one call.
//@ args: {dir}/notes
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at text
//@ prove: refuted at compare
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails-nothing-lost at count-early
//@ prove: refuted at compare

#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define POOL_SIZE 4096

struct entry {
  uint32_t length;
  char text[60];
};

struct notes {
  uint64_t magic;
  uint64_t count;
  struct entry entries[8] __attribute__((aligned(64)));
};

static const char *wanted[] = {"milk", "bread and butter", "tea"};

static void persist(const void *p, size_t n) {
  uintptr_t line = (uintptr_t)p & ~63ul;
  for (; line < (uintptr_t)p + n; line += 64)
    _mm_clwb((void *)line);
  _mm_sfence();
}

static struct notes *open_notes(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0644);
  if (fd < 0) {
    perror(path);
    exit(1);
  }
  struct stat st;
  if (fstat(fd, &st) != 0)
    exit(1);
  if (st.st_size < POOL_SIZE && ftruncate(fd, POOL_SIZE) != 0)
    exit(1);
  struct notes *n = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (n == MAP_FAILED)
    exit(1);
  close(fd);
  return n;
}

static void append(struct notes *n, const char *text) {
  struct entry *e = &n->entries[n->count];
#if BUG == 2
  n->count++; // MARK: count-early
  persist(&n->count, sizeof n->count);
#endif
  e->length = (uint32_t)strlen(text);
  memcpy(e->text, text, e->length + 1); // MARK: text
#if BUG != 1
  persist(e, sizeof *e);
#endif
#if BUG != 2
  n->count++; // MARK: count
  persist(&n->count, sizeof n->count);
#endif
}

int main(int argc, char **argv) {
  struct notes *n = open_notes(argc > 1 ? argv[1] : "notes");
  if (n->magic != 0x5e07) {
    n->count = 0;
    persist(&n->count, sizeof n->count);
    n->magic = 0x5e07;
    persist(&n->magic, sizeof n->magic);
  }
  assert(n->count <= 3);
  for (uint64_t i = 0; i < n->count; i++) {
    struct entry *e = &n->entries[i];
    assert(memcmp(e->text, wanted[i], e->length + 1) == 0); // MARK: compare
    assert(e->length > 0); // MARK: length
  }
  while (n->count < 3)
    append(n, wanted[n->count]);
  return 0;
}
