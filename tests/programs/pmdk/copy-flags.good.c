// What the flags leave out is done after all.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

void *pmem_memcpy(void *dest, const void *src, size_t len, unsigned flags);
enum { NODRAIN = 1, NOFLUSH = 32 };

struct blob {
  uint64_t len;
  char data[500];
};

void set_data(struct blob *b, const void *from) {
  pmem_memcpy(b->data, from, sizeof b->data, NODRAIN);
  pmem_drain();
}

void set_all(struct blob *b, const void *from) {
  pmem_memcpy(b->data, from, sizeof b->data, NOFLUSH);
  b->len = sizeof b->data;
  pmem_persist(b, sizeof *b);
}
