// Copies that wait, and one that is waited for.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
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
  f->used = n;
  pmem_persist(&f->used, sizeof f->used);
}
void store_nodrain(const char *path, const char *text, size_t n) {
  size_t mapped; int pmem;
  struct file *f = pmem_map_file(path, 0, 0, 0, &mapped, &pmem);
  pmem_memcpy_nodrain(f->records[0].text, text, n);
  pmem_drain();
}
