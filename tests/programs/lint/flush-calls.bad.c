// A loop over lines by a function that is a name for the instruction.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct entry {
  uint64_t key;
  uint64_t value;
};

PERSISTENT static struct entry leaf[32];
PERSISTENT static uint64_t used;

static void line(void *at) { asm volatile(".byte 0x66; xsaveopt %0" : "+m"(*(volatile char *)at)); }

static void write_back(const void *from, size_t bytes) {
  for (uintptr_t at = (uintptr_t)from & ~(uintptr_t)63; at < (uintptr_t)from + bytes; at += 64)
    line((void *)at);
  _mm_sfence();
}

void insert(uint64_t key, uint64_t value) {
  leaf[used].key = key; // MARK: unflushed-write
  leaf[used].value = value; // MARK: unflushed-write-2
  used++;
  write_back(&used, sizeof used);
}
