// Stores through nothing but a pointer, in functions of their own.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT static uint32_t state;
PERSISTENT static uint64_t total;

static void set(uint32_t *to) {
  *to = 1; // MARK: unflushed-write
}

static void add(uint64_t *to, uint64_t n) {
  __atomic_fetch_add(to, n, __ATOMIC_SEQ_CST); // MARK: unflushed-write-2
}

void begin(void) { set(&state); }
void count(uint64_t n) { add(&total, n); }
