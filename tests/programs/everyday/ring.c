// A ring buffer: head and tail only grow, slots are taken modulo the size.
//@ args: {dir}/ring
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at line-5
//@ prove: refuted at sum
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails-nothing-lost at advance
//@ prove: refuted at sum

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

#define N 4

struct msg {
  uint32_t len;
  uint32_t sum;
  char body[24];
};

struct ring {
  uint64_t head; /* next to read */
  char pad1[56];
  uint64_t tail; /* next to write */
  char pad2[56];
  struct msg slot[N];
};

static struct ring *r;

static void persist(const void *p, size_t n) {
  for (uintptr_t a = (uintptr_t)p & ~63ul; a < (uintptr_t)p + n; a += 64)
    _mm_clflushopt((void *)a);
  _mm_sfence();
}

static uint32_t sum(const char *p, uint32_t n) {
  uint32_t s = 17;
  for (uint32_t i = 0; i < n; i++)
    s = s * 31 + (unsigned char)p[i];
  return s;
}

static void advance(uint64_t *index) {
  (*index)++; // MARK: advance
  persist(index, sizeof *index);
}

static int send_msg(const char *text) {
  if (r->tail - r->head == N)
    return -1;
  struct msg *m = &r->slot[r->tail % N];
#if BUG == 2
  advance(&r->tail);
#endif
  m->len = (uint32_t)strlen(text);
  memcpy(m->body, text, m->len); // MARK: body
  m->sum = sum(m->body, m->len); // MARK: line-5
#if BUG != 1
  persist(m, sizeof *m);
#endif
#if BUG != 2
  advance(&r->tail);
#endif
  return 0;
}

static int receive(char *out, uint32_t *len) {
  if (r->head == r->tail)
    return 0;
  struct msg *m = &r->slot[r->head % N];
  *len = m->len;
  assert(m->len <= sizeof m->body); // MARK: length
  memcpy(out, m->body, m->len);
  assert(sum(out, *len) == m->sum); // MARK: sum
  advance(&r->head);
  return 1;
}

int main(int argc, char **argv) {
  int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 4096))
    return 1;
  r = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (r == MAP_FAILED)
    return 1;
  assert(r->tail - r->head <= N); // MARK: bounds
  char text[32];
  uint32_t len;
  while (r->head != r->tail)
    receive(text, &len);
  send_msg("hello");
  send_msg("bye");
  receive(text, &len);
  send_msg("again");
  return 0;
}
