// A ring of events: the producer fills a slot, then moves the head; the consumer clears, then moves the tail.
//@ args: {dir}/ring
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant slot: -DBUG=1
//@ check: recovery-fails at len
//@ lint: unflushed-write at kind
//@ lint: unflushed-write at len
//@ lint: unflushed-write at slot
//@ variant tail: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at tail
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RING 4u
#define MASK (RING - 1)

typedef struct event {
  uint32_t kind;
  uint32_t len;
  char text[56];
} event;

typedef struct ring {
  volatile uint64_t head;
  char p0[56];
  volatile uint64_t tail;
  char p1[56];
  event slot[RING];
} ring;

static inline void dc_clwb(volatile void *p) { asm volatile(".byte 0x66; xsaveopt %0" : "+m"(*(volatile char *)p)); }
static inline void dc_fence(void) { asm volatile("sfence" : : : "memory"); }
static inline void dc_persist(volatile void *p, size_t len) {
  uintptr_t cur = (uintptr_t)p & ~(64 - 1ul), end = (uintptr_t)p + len;
  for (; cur < end; cur += 64)
    dc_clwb((volatile void *)cur);
  dc_fence();
}

static int ring_push(ring *r, uint32_t kind, const char *text) {
  if (r->head - r->tail == RING)
    return -1;
  event *e = &r->slot[r->head & MASK];
  e->kind = kind; // MARK: kind
  e->len = (uint32_t)strlen(text); // MARK: len
  memcpy(e->text, text, e->len + 1); // MARK: slot
#if BUG != 1
  dc_persist(e, sizeof *e);
#endif
  r->head++;
  dc_persist(&r->head, sizeof r->head);
  return 0;
}

static int ring_pop(ring *r, event *out) {
  if (r->head == r->tail)
    return -1;
  *out = r->slot[r->tail & MASK];
  r->tail++; // MARK: tail
#if BUG != 2
  dc_persist(&r->tail, sizeof r->tail);
#endif
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  ring *r;
  if (fd < 0 || ftruncate(fd, sizeof *r) ||
      (r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
    return EXIT_FAILURE;
  assert(r->head - r->tail <= RING);
  for (uint64_t i = r->tail; i != r->head; i++)
    assert(r->slot[i & MASK].kind == 3 && r->slot[i & MASK].len == 2); // MARK: claim
  event e;
  ring_push(r, 3, "ab");
  ring_push(r, 3, "cd");
  ring_pop(r, &e);
  return EXIT_SUCCESS;
}
