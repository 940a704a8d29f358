// libpmem: a journal whose records are copied without draining; one drain before the tail moves.
//@ args: {dir}/journal
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant drain: -DBUG=1
//@ check: recovery-fails at body
//@ lint: publish-before-persist at type
//@ lint: publish-before-persist at header
//@ lint: publish-before-persist at body
//@ variant header: -DBUG=2
//@ check: recovery-fails at header
//@ lint: unflushed-write at type
//@ lint: unflushed-write at header
#include <assert.h>
#include <libpmem.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct rec {
  uint32_t type;
  uint32_t size;
  char gap[56];
  char body[64];
};

struct journal {
  uint64_t tail;
  char gap[56];
  struct rec rec[8];
};

static struct journal *j;

static int append(uint32_t type, const void *body, uint32_t size) {
  if (j->tail == 8 || size > sizeof j->rec[0].body)
    return -1;
  struct rec *r = &j->rec[j->tail];
  r->type = type; // MARK: type
  r->size = size; // MARK: header
#if BUG != 2
  pmem_flush(r, 8);
#endif
  pmem_memcpy_nodrain(r->body, body, size); // MARK: body
#if BUG != 1
  pmem_drain();
#endif
  j->tail += 1;
  pmem_persist(&j->tail, sizeof(j->tail));
  return 0;
}

int main(int argc, char **argv) {
  size_t mapped;
  j = pmem_map_file(argv[1], sizeof *j, PMEM_FILE_CREATE, 0600, &mapped, NULL);
  if (!j)
    return 1;
  for (uint64_t i = 0; i < j->tail; i++) {
    assert(j->rec[i].size == 6);
    assert(memcmp(j->rec[i].body, "hello", j->rec[i].size) == 0); // MARK: claim
  }
  while (j->tail < 2)
    if (append(1, "hello", 6))
      return 2;
  pmem_unmap(j, mapped);
  return 0;
}
