// Copy on write: a new version of the object is built aside, and the root pointer is swapped by compare-and-exchange.
//@ args: {dir}/cow
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant body: -DBUG=1
//@ check: recovery-fails at bump
//@ check: missing-flush at copy
//@ lint: unflushed-write at copy
//@ lint: unflushed-write at setv
//@ lint: unflushed-write at bump
//@ variant root: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at swap
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct obj {
  uint64_t version;
  uint64_t cells[15];
} obj_t;

typedef struct {
  _Atomic uint64_t current;
  uint64_t pad[7];
  obj_t versions[4];
} pool_t;

static void flush_buf(void *p, int n) {
  for (int i = 0; i < n; i += 64)
    _mm_clwb((char *)p + i);
  _mm_sfence();
}

static obj_t *version(pool_t *p, uint64_t v) { return &p->versions[v & 3]; }

static int bump(pool_t *p) {
  uint64_t v = atomic_load(&p->current);
  obj_t *from = version(p, v), *to = version(p, v + 1);
  memcpy(to, from, sizeof *to); // MARK: copy
  to->version = v + 1; // MARK: setv
  for (int i = 0; i < 15; i++)
    to->cells[i]++; // MARK: bump
#if BUG != 1
  flush_buf(to, sizeof *to);
#endif
  if (!atomic_compare_exchange_strong(&p->current, &v, v + 1)) // MARK: swap
    return -1;
#if BUG != 2
  flush_buf(&p->current, sizeof p->current);
#endif
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(pool_t)))
    return 1;
  pool_t *p = mmap(NULL, sizeof(pool_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED)
    return 1;
  obj_t *o = version(p, atomic_load(&p->current));
  for (int i = 0; i < 15; i++)
    assert(o->cells[i] == o->version);
  assert(o->version == atomic_load(&p->current));
  for (int i = 0; i < 3; i++)
    bump(p);
  return 0;
}
