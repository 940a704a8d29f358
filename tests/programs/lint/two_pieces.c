// A record that wraps around the end of a ring is copied and flushed in two pieces: the flush of the first, at a computed
// place, is not one of the second.
//@ variant both:
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant first: -DFIRST
//@ check: fails at REST
//@ lint: unflushed-write at REST
//@ prove: refuted
#include <crashproof.h>
#include <stdint.h>
#include <string.h>

enum { ROOM = 256, RECORD = 100 };
struct ring {
  uint64_t tail;
  _Alignas(64) char data[ROOM];
};

static void put(struct ring *r, const char *record) {
  uint64_t at = r->tail % ROOM;
  uint64_t first = RECORD < ROOM - at ? RECORD : ROOM - at;
  memcpy(r->data + at, record, first);
  memcpy(r->data, record + first, RECORD - first); // MARK: REST
  crashproof_flush(r->data + at, first);
#ifndef FIRST
  if (RECORD > first)
    crashproof_flush(r->data, RECORD - first);
#endif
  crashproof_drain();
  r->tail += RECORD;
  crashproof_persist(&r->tail, sizeof r->tail);
}

int main(void) {
  struct ring *r = crashproof_root(sizeof *r);
  for (uint64_t at = r->tail > ROOM ? r->tail - ROOM : 0; at < r->tail; at++)
    if (at / RECORD >= 1)
      crashproof_assert(r->data[at % ROOM] == (char)('a' + at / RECORD));
  if (r->tail > 0)
    return 0;
  char record[RECORD];
  for (int i = 0; i < 3; i++) {
    memset(record, 'a' + i, sizeof record);
    put(r, record);
  }
  return 0;
}
