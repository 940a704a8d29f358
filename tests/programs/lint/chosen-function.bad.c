// One of two functions is chosen at the start; both write back a line.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT static uint64_t values[512];
PERSISTENT static uint64_t count;

static void (*write_back)(const void *);
static void by_clwb(const void *at) { _mm_clwb((void *)at); }
static void by_clflushopt(const void *at) { _mm_clflushopt((void *)at); }

void choose(int clwb) { write_back = clwb ? by_clwb : by_clflushopt; }

void add(uint64_t value) {
  values[count] = value; // MARK: unflushed-write
  count++;
  write_back(&count);
  _mm_sfence();
}
