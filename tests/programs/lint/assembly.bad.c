// Inline assembly in the ways of old kernels and libraries.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT uint64_t value;
PERSISTENT uint64_t other __attribute__((aligned(64)));

void update(void) {
  value = 1;
  __asm__ volatile(".byte 0x66; clflush %0" : "+m"(*(volatile char *)&value));
  other = 2; // MARK: unflushed-write
  __asm__ volatile("sfence" ::: "memory");
}
