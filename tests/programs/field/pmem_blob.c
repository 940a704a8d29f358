// libpmem: blobs are copied without draining, their index entries afterwards; one drain orders both.
//@ args: {dir}/blobs
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant drain: -DBUG=1
//@ check: recovery-fails at offset
//@ check: recovery-fails at size
//@ check: recovery-fails at copy
//@ lint: publish-before-persist at copy
//@ lint: publish-before-persist at offset
//@ lint: publish-before-persist at size
//@ variant index: -DBUG=2
//@ check: recovery-fails at offset
//@ check: recovery-fails at size
//@ lint: unflushed-write at offset
//@ lint: unflushed-write at size
//@ variant partial: -DBUG=3
//@ check: recovery-fails at size
//@ lint: unflushed-write at size
#include <assert.h>
#include <libpmem.h>
#include <stdint.h>
#include <string.h>

#define BLOBS 4

typedef struct {
  uint64_t offset;
  uint64_t pad[7];
  uint64_t size;
  uint64_t pad2[7];
} entry_t;

typedef struct {
  uint64_t count;
  uint64_t pad[7];
  entry_t index[BLOBS];
  char data[1024];
} store_t;

static int store_add(store_t *s, const void *blob, uint64_t size) {
  uint64_t n = s->count;
  if (n == BLOBS)
    return -1;
  uint64_t offset = n ? s->index[n - 1].offset + s->index[n - 1].size : 0;
  pmem_memcpy_nodrain(s->data + offset, blob, size); // MARK: copy
  s->index[n].offset = offset; // MARK: offset
  s->index[n].size = size;     // MARK: size
#if BUG == 3
  pmem_flush(&s->index[n], sizeof s->index[n].offset);
#elif BUG != 2
  pmem_flush(&s->index[n], sizeof s->index[n]);
#endif
#if BUG != 1
  pmem_drain();
#endif
  s->count = n + 1;
  pmem_persist(&s->count, sizeof s->count);
  return 0;
}

int main(int argc, char **argv) {
  size_t mapped;
  int is_pmem;
  store_t *s = pmem_map_file(argv[1], sizeof *s, PMEM_FILE_CREATE, 0666, &mapped, &is_pmem);
  if (!s)
    return 1;
  char blob[100];
  memset(blob, 'x', sizeof blob);
  for (uint64_t i = 0; i < s->count; i++) {
    assert(s->index[i].size == sizeof blob && s->index[i].offset == i * sizeof blob);
    assert(memcmp(s->data + s->index[i].offset, blob, sizeof blob) == 0);
  }
  while (s->count < 2)
    store_add(s, blob, sizeof blob);
  pmem_unmap(s, mapped);
  return 0;
}
