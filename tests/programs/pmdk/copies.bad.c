// libpmem: memcpy_persist of the record, then the index is only memcpy'd without drain.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ lint: missing-barrier at missing-barrier
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"
#include <string.h>
void *pmem_memcpy_nodrain(void *dest, const void *src, size_t len);
struct record { uint64_t length; char text[200]; };
struct file { uint64_t used; uint64_t pad[7]; struct record records[16]; };
void store(const char *path, const char *text, size_t n) {
  size_t mapped; int pmem;
  struct file *f = pmem_map_file(path, 0, 0, 0, &mapped, &pmem);
  pmem_memcpy_persist(f->records[0].text, text, n);
  f->used = n; // MARK: unflushed-write
}
void store_nodrain(const char *path, const char *text, size_t n) {
  size_t mapped; int pmem;
  struct file *f = pmem_map_file(path, 0, 0, 0, &mapped, &pmem);
  pmem_memcpy_nodrain(f->records[0].text, text, n); // MARK: missing-barrier
}
