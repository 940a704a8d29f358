// libpmem: entries are copied with pmem_memcpy_persist, the count follows.
//@ args: {dir}/book
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant name: -DBUG=1
//@ check: recovery-fails at name
//@ lint: unflushed-write at name
//@ variant count: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at count
#include <assert.h>
#include <libpmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX 6
struct person {
  char name[32];
  char phone[32];
};
struct book {
  uint64_t n;
  uint64_t unused[7];
  struct person p[MAX];
};

static void book_add(struct book *b, int is_pmem, const char *name, const char *phone) {
  if (b->n >= MAX)
    return;
  struct person *p = b->p + b->n;
  pmem_memcpy_persist(p->phone, phone, strlen(phone) + 1);
#if BUG == 1
  strncpy(p->name, name, sizeof p->name - 1); // MARK: name
#else
  strncpy(p->name, name, sizeof p->name - 1);
  if (is_pmem)
    pmem_persist(p->name, sizeof p->name);
  else
    pmem_msync(p->name, sizeof p->name);
#endif
  b->n++; // MARK: count
#if BUG != 2
  if (is_pmem)
    pmem_persist(&b->n, sizeof b->n);
  else
    pmem_msync(&b->n, sizeof b->n);
#endif
}

int main(int argc, char *argv[]) {
  size_t len;
  int is_pmem;
  struct book *b = pmem_map_file(argv[1], sizeof *b, PMEM_FILE_CREATE, 0666, &len, &is_pmem);
  if (b == NULL) {
    perror("pmem_map_file");
    exit(1);
  }
  for (uint64_t i = 0; i < b->n; i++) {
    assert(b->p[i].phone[0] == '+');
    assert(b->p[i].name[0] != 0); // MARK: claim
  }
  if (b->n < 2) {
    book_add(b, is_pmem, "ada", "+44");
    book_add(b, is_pmem, "bob", "+49");
  }
  pmem_unmap(b, len);
  return 0;
}
