// A write-ahead log whose records carry a checksum instead of an order: recovery stops at the first that does not match.
//@ args: {dir}/wal
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at line-3
//@ prove: refuted at seq

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

struct rec {
  uint32_t seq;
  uint32_t value;
  uint32_t check;
  uint32_t pad;
};
struct wal {
  struct rec rec[8];
};

static uint32_t check_of(const struct rec *r) { return (r->seq ^ 0x5bd1u) + (r->value ^ 0x27d4u) + 1; }

static void append(struct wal *w, uint32_t seq, uint32_t value) {
  struct rec *r = &w->rec[seq];
#if BUG == 1
  r->check = 0;
  r->value = value;
  r->seq = seq; // MARK: line-3
#else
  r->seq = seq;
  r->value = value;
  r->check = check_of(r); // MARK: check
#endif
  _mm_clwb(r);
  _mm_sfence();
}

static uint32_t replay(const struct wal *w, uint32_t *last) {
  uint32_t n = 0;
#if BUG == 1
  while (n < 8 && w->rec[n].value != 0) {
#else
  while (n < 8 && w->rec[n].check == check_of(&w->rec[n])) {
#endif
    assert(w->rec[n].seq == n); // MARK: seq
    *last = w->rec[n].value;
    n++;
  }
  return n;
}

int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "wal", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(struct wal)) < 0)
    return 1;
  struct wal *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (w == MAP_FAILED)
    return 1;
  uint32_t last = 0;
  uint32_t n = replay(w, &last);
  if (n > 0)
    assert(last == n * 3); // MARK: claim
  while (n < 4) {
    append(w, n, (n + 1) * 3);
    n++;
  }
  return 0;
}
