// A ring whose consumer moves the head on, durably, and then clears the element: nothing reads it any more.
//@ args: {dir}/ring
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DRIGHT
//@ check: clean
//@ lint: clean
//@ variant item: -DITEM
//@ check: recovery-fails at item
//@ lint: unflushed-write at item
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM 4

struct ring {
  uint64_t head, tail, apart[6];
  uint64_t item[ROOM];
};

static void persist(const void *at, size_t bytes) {
  uintptr_t line = (uintptr_t)at & ~63ull, end = (uintptr_t)at + bytes;
  for (; line < end; line += 64)
    _mm_clwb((void *)line);
  _mm_sfence();
}

static void produce(struct ring *r) {
  uint64_t at = r->tail;
  if (at - r->head == ROOM)
    return;
  r->item[at % ROOM] = 100 + at; // MARK: item
#ifndef ITEM
  persist(&r->item[at % ROOM], 8);
#endif
  r->tail = at + 1;
  persist(&r->tail, 8);
}

static void consume(struct ring *r) {
  if (r->head == r->tail)
    return;
  r->head++;
  persist(&r->head, 8);
  r->item[(r->head - 1) % ROOM] = 0;
  persist(&r->item[(r->head - 1) % ROOM], 8);
}

int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "ring", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(struct ring)) != 0)
    return 2;
  struct ring *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (r == MAP_FAILED)
    return 2;
  if (r->tail < r->head || r->tail - r->head > ROOM)
    return 1;
  for (uint64_t i = r->head; i < r->tail; i++)
    if (r->item[i % ROOM] != 100 + i)
      return 1;
  produce(r);
  produce(r);
  consume(r);
  return 0;
}
