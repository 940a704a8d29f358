// The setter is no part of a transaction; the allocation shows that the other function is.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "mnemosyne.h"

void *_ITM_pmalloc(size_t bytes);

static __attribute__((section("PERSISTENT"))) uint64_t flag;

struct pair {
  uint64_t first;
  uint64_t second;
};

struct pair *make_pair(uint64_t first, uint64_t second) {
  struct pair *pair = _ITM_pmalloc(sizeof *pair);
  pair->first = first;
  pair->second = second;
  return pair;
}

void set_flag(uint64_t to) {
  flag = to; // MARK: unflushed-write
}
