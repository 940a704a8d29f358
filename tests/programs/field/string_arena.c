// Strings of any length in an arena; the file's size decides whether it is new.
//@ args: {dir}/arena
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant string: -DBUG=1
//@ check: recovery-fails at string
//@ lint: unflushed-write at string
//@ variant length: -DBUG=2
//@ check: recovery-fails at string
//@ lint: unflushed-write at string (known wrong: a flush at the start of a copy of unknown length counts for all of it)
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

#define ARENA (4u << 20)

struct arena {
  uint32_t used;
  uint32_t count;
  uint32_t pad[14];
  char bytes[ARENA - 64];
};

static struct arena *arena_open(const char *path) {
  struct stat st;
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || fstat(fd, &st) < 0)
    return NULL;
  if (st.st_size != ARENA && ftruncate(fd, ARENA) < 0)
    return NULL;
  struct arena *a = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return a == MAP_FAILED ? NULL : a;
}

static void flush(const void *from, size_t n) {
  const char *c = (const char *)((uintptr_t)from & ~(uintptr_t)63);
  for (; c < (const char *)from + n; c += 64)
    _mm_clwb((void *)c);
  _mm_sfence();
}

static const char *arena_add(struct arena *a, const char *s) {
  size_t n = strlen(s) + 1;
  if (a->used + n > sizeof a->bytes)
    return NULL;
  char *at = a->bytes + a->used;
  memcpy(at, s, n); // MARK: string
#if BUG == 0
  flush(at, n);
#elif BUG == 2
  flush(at, 1);
#endif
  a->used += n;
  flush(&a->used, sizeof a->used);
  return at;
}

int main(int argc, char **argv) {
  struct arena *a = arena_open(argv[1]);
  if (!a)
    return 1;
  static const char word[] = "a long string that is not in one line of the cache, so that its end is in the next";
  for (uint32_t at = 0; at < a->used; at += sizeof word)
    assert(memcmp(a->bytes + at, word, sizeof word) == 0); // MARK: claim
  if (a->used == 0)
    arena_add(a, word);
  return 0;
}
