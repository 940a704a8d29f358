// Seqlock style: a sequence number is odd while the pair changes; recovery throws an odd pair away.
//@ args: {dir}/pair
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant odd: -DBUG=1
//@ check: recovery-fails at x
//@ check: recovery-fails at odd
//@ lint: unflushed-write at odd
//@ variant pair: -DBUG=2
//@ check: recovery-fails at x
//@ check: recovery-fails at y
//@ lint: unflushed-write at x
//@ lint: unflushed-write at y
//@ variant even: -DBUG=3
//@ check: clean
//@ lint: unflushed-write at even
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct cell {
  volatile uint64_t seq;
  uint64_t p0[7];
  uint64_t x;
  uint64_t p1[7];
  uint64_t y;
  uint64_t p2[7];
};

#define WB(field) _mm_clwb((void *)&(field))

static void cell_begin(struct cell *c) {
  c->seq++; // MARK: odd
  if (BUG == 1)
    return;
  WB(c->seq);
  _mm_sfence();
}

static void cell_end(struct cell *c) {
  c->seq++; // MARK: even
  if (BUG == 3)
    return;
  WB(c->seq);
  _mm_sfence();
}

static void cell_write(struct cell *c, uint64_t x, uint64_t y) {
  cell_begin(c);
  c->x = x; // MARK: x
  c->y = y; // MARK: y
  if (BUG != 2) {
    WB(c->x);
    WB(c->y);
    _mm_sfence();
  }
  cell_end(c);
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct cell)))
    return 1;
  struct cell *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (c == MAP_FAILED)
    return 1;
  if (c->seq & 1) {
    c->x = c->y = 0;
    WB(c->x);
    WB(c->y);
    _mm_sfence();
    cell_end(c);
  }
  assert(c->y == 2 * c->x);
  for (uint64_t i = 1; i <= 2; i++)
    cell_write(c, i, 2 * i);
  return 0;
}
