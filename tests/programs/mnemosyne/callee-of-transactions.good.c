// Only code for transactions allocates by _ITM_pmalloc: whoever calls this has one open, and it logs every store.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "mnemosyne.h"

void *_ITM_pmalloc(size_t bytes);

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
