// What the flags leave out, somebody else has to do.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier at missing-barrier
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

void *pmem_memcpy(void *dest, const void *src, size_t len, unsigned flags);
enum { NODRAIN = 1, NOFLUSH = 32 };

struct blob {
  uint64_t len;
  char data[500];
};

void set_data(struct blob *b, const void *from) {
  pmem_memcpy(b->data, from, sizeof b->data, NODRAIN); // MARK: missing-barrier
}

void set_all(struct blob *b, const void *from) {
  pmem_memcpy(b->data, from, sizeof b->data, NOFLUSH); // MARK: unflushed-write
  b->len = sizeof b->data;
  pmem_persist(&b->len, sizeof b->len);
}
