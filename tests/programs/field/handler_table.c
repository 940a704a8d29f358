// Records of a log are applied by handlers from a table of functions.
//@ args: {dir}/log
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant set: -DBUG_set
//@ check: fails at set
//@ lint: fails at set
//@ prove: refuted at claim
//@ variant rec: -DBUG_rec
//@ check: clean
//@ lint: unflushed-write at record
//@ lint: unflushed-write at rec
//@ prove: proved
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* a write-ahead log with handlers per record type */
enum { REC_SET = 1, REC_INC = 2 };
struct rec { uint16_t type; uint16_t slot; uint32_t seq; int64_t arg; };
struct db { uint32_t applied; uint32_t logged; struct rec log[8]; int64_t slots[8]; };
typedef void (*handler_t)(struct db *, const struct rec *);
static void flush_range(const void *p, size_t n) { uintptr_t b = (uintptr_t)p & ~63ul; for (; b < (uintptr_t)p + n; b += 64) _mm_clwb((void *)b); }
static void fence(void) { _mm_sfence(); }
static void do_set(struct db *d, const struct rec *r) {
  d->slots[r->slot] = r->arg; // MARK: set
#ifndef BUG_set
  flush_range(&d->slots[r->slot], sizeof d->slots[0]);
  fence();
#endif
}
static void do_neg(struct db *d, const struct rec *r) {
  d->slots[r->slot] = -r->arg;
  flush_range(&d->slots[r->slot], sizeof d->slots[0]);
  fence();
}
static const handler_t handlers[] = { NULL, do_set, do_neg };
static void replay(struct db *d) {
  while (d->applied < d->logged) {
    const struct rec *r = &d->log[d->applied % 8];
    assert(r->type == REC_SET || r->type == REC_INC);
    assert(r->seq == d->applied + 1);
    handlers[r->type](d, r);
    d->applied++;
    flush_range(&d->applied, 4);
    fence();
  }
}
static void submit(struct db *d, int type, int slot, int64_t arg) {
  struct rec *r = &d->log[d->logged % 8];
  r->type = type; r->slot = slot; r->arg = arg; // MARK: record
  r->seq = d->logged + 1; // MARK: rec
#ifndef BUG_rec
  flush_range(r, sizeof *r);
  fence();
#endif
  d->logged++;
  flush_range(&d->logged, 4);
  fence();
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0) { perror("open"); exit(EXIT_FAILURE); }
  if (ftruncate(fd, sizeof(struct db)) < 0) { perror("truncate"); exit(EXIT_FAILURE); }
  struct db *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (d == MAP_FAILED) { perror("mmap"); exit(EXIT_FAILURE); }
  replay(d);
  if (d->applied >= 1) assert(d->slots[2] == 5); // MARK: claim
  if (d->applied >= 2) assert(d->slots[5] == -9);
  if (d->logged == 0) { submit(d, REC_SET, 2, 5); replay(d); }
  if (d->logged == 1) { submit(d, REC_INC, 5, 9); replay(d); }
  return 0;
}
