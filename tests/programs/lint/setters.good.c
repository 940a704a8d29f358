// Stores through nothing but a pointer, in functions of their own.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT static uint32_t state;
PERSISTENT static uint64_t total;

static void set(uint32_t *to) {
  *to = 1;
}

static void add(uint64_t *to, uint64_t n) {
  __atomic_fetch_add(to, n, __ATOMIC_SEQ_CST);
}

void begin(void) { set(&state); persist(&state, sizeof state); }
void count(uint64_t n) { add(&total, n); persist(&total, sizeof total); }
