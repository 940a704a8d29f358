// As assembly.bad.c, with both flushed.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT uint64_t value;
PERSISTENT uint64_t other __attribute__((aligned(64)));

void update(void) {
  value = 1;
  __asm__ volatile(".byte 0x66; clflush %0" : "+m"(*(volatile char *)&value));
  other = 2;
  __asm__ volatile(".byte 0x66; xsaveopt %0" : "+m"(*(volatile char *)&other));
  __asm__ volatile("sfence" ::: "memory");
}
