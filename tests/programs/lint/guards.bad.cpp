// RAII: the guard's destructor flushes what it was given; a second object is not guarded.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
struct Guard {
  void *at; size_t bytes;
  Guard(void *p, size_t n) : at(p), bytes(n) {}
  ~Guard() { persist(at, bytes); }
};
struct Page { uint64_t lsn; char data[248]; };
PERSISTENT Page left, right;
void move(const char *from, size_t n) {
  Guard guard(&left, sizeof left);
  left.lsn = n;
  memcpy(left.data, from, 248);
  right.lsn = n; // MARK: unflushed-write
}
