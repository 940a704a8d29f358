// A stack of strings: variable-length records one behind the other, each with its length before it and behind it.
//@ args: {dir}/stack
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at line-4
//@ prove: refuted at claim

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

struct stack {
  uint32_t top; /* bytes in use */
  uint32_t depth;
  char pad[56];
  char bytes[448];
};
static struct stack *s;

static void persist(const void *p, size_t n) {
  for (uintptr_t a = (uintptr_t)p & ~63ul; a < (uintptr_t)p + n; a += 64)
    _mm_clwb((void *)a);
  _mm_sfence();
}

static void push(const char *text) {
  uint32_t length = (uint32_t)strlen(text), at = s->top;
  memcpy(s->bytes + at, text, length); // MARK: text
  memcpy(s->bytes + at + length, &length, sizeof length); // MARK: line-4
#if BUG != 1
  persist(s->bytes + at, length + sizeof length);
#endif
  s->top = at + length + (uint32_t)sizeof length; // MARK: top
  persist(&s->top, sizeof s->top);
}

static int top_is(const char *text) {
  uint32_t length;
  memcpy(&length, s->bytes + s->top - sizeof length, sizeof length);
  assert(length <= s->top - sizeof length); // MARK: length
  return length == strlen(text) && memcmp(s->bytes + s->top - sizeof length - length, text, length) == 0;
}

int main(int argc, char **argv) {
  int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof *s) != 0)
    return 1;
  s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (s == MAP_FAILED)
    return 1;
  if (s->top == 0)
    push("one");
  if (top_is("one"))
    push("three");
  assert(top_is("three")); // MARK: claim
  return 0;
}
