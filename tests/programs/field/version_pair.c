// A record guarded by a version, odd while it is written, as a seqlock does; recovery rolls back to the copy.
//@ args: {dir}/rec
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant copy: -DBUG=1
//@ check: recovery-fails at copy
//@ lint: unflushed-write at copy
//@ variant record: -DBUG=2
//@ check: recovery-fails at record
//@ lint: publish-before-persist at record
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
  int64_t x, y, z;
} vec;

typedef struct {
  _Alignas(64) _Atomic uint64_t version;
  _Alignas(64) vec now;
  _Alignas(64) vec before;
} record;

static void clwb_(void *p) { _mm_clwb(p); }
static void persist_line(void *p) {
  clwb_(p);
  _mm_sfence();
}

static record *map_record(const char *name) {
  int fd = open(name, O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 4096) < 0)
    return NULL;
  record *r = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return r == MAP_FAILED ? NULL : r;
}

static void write_record(record *r, vec v) {
  uint64_t version = atomic_load_explicit(&r->version, memory_order_relaxed);
  r->before = r->now; // MARK: copy
#if BUG != 1
  persist_line(&r->before);
#endif
  atomic_store_explicit(&r->version, version + 1, memory_order_release);
  persist_line((void *)&r->version);
  r->now = v; // MARK: record
#if BUG == 2
  clwb_(&r->now);
#else
  persist_line(&r->now);
#endif
  atomic_store_explicit(&r->version, version + 2, memory_order_release);
  persist_line((void *)&r->version);
}

static void restore(record *r) {
  if (atomic_load(&r->version) & 1) {
    r->now = r->before;
    persist_line(&r->now);
    atomic_fetch_add(&r->version, 1);
    persist_line((void *)&r->version);
  }
}

int main(int argc, char **argv) {
  record *r = map_record(argv[1]);
  if (!r) {
    perror("map");
    return 1;
  }
  restore(r);
  assert(r->now.x == r->now.y && r->now.y == r->now.z); // MARK: claim
  for (int64_t i = 1; i <= 2; i++)
    write_record(r, (vec){i, i, i});
  return 0;
}
