// The pointer to a mapped file is the beginning of a page: the header is one line. What is behind it is not.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
#include <sys/mman.h>

struct pool {
  uint64_t top;
  uint64_t head;
};

struct record {
  uint64_t next;
  uint64_t bytes;
  char body[];
};

static char *base;

int open_pool(int file) {
  base = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return base == MAP_FAILED ? -1 : 0;
}

void add(const char *text, uint64_t n) {
  struct pool *pool = (struct pool *)base;
  struct record *record = (struct record *)(base + pool->top);
  record->next = pool->head;
  record->bytes = n;
  memcpy(record->body, text, n); // MARK: unflushed-write
  persist(record, sizeof *record);
  pool->head = pool->top;
  pool->top += sizeof *record + n;
  persist(&pool->head, sizeof pool->head);
}
