// An undo log behind a table of operations: how to write back is chosen at start.
//@ args: {dir}/undo
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant log: -DBUG=1
//@ check: recovery-fails at valid
//@ lint: unflushed-write at valid
//@ variant data: -DBUG=2
//@ check: recovery-fails at new
//@ lint: unflushed-write at first
//@ lint: unflushed-write at new
#include <assert.h>
#include <cpuid.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct undo {
  uint64_t valid;
  uint64_t index;
  uint64_t old[2];
};

struct file {
  struct undo undo __attribute__((aligned(64)));
  uint64_t cell[16] __attribute__((aligned(64)));
};

struct persist_ops {
  void (*flush)(const void *p, size_t n);
  void (*drain)(void);
};

static void flush_clwb(const void *p, size_t n) {
  uintptr_t a = (uintptr_t)p & -64ul;
  do {
    _mm_clwb((void *)a);
    a += 64;
  } while (a < (uintptr_t)p + n);
}
static void flush_clflushopt(const void *p, size_t n) {
  uintptr_t a = (uintptr_t)p & -64ul;
  do {
    _mm_clflushopt((void *)a);
    a += 64;
  } while (a < (uintptr_t)p + n);
}
static void drain_sfence(void) { _mm_sfence(); }

static const struct persist_ops clwb_ops = {flush_clwb, drain_sfence};
static const struct persist_ops opt_ops = {flush_clflushopt, drain_sfence};
static const struct persist_ops *ops = &clwb_ops;

static void persist(const void *p, size_t n) {
  ops->flush(p, n);
  ops->drain();
}

static void rollback(struct file *f) {
  if (!f->undo.valid)
    return;
  memcpy(&f->cell[f->undo.index], f->undo.old, sizeof f->undo.old);
  persist(&f->cell[f->undo.index], sizeof f->undo.old);
  f->undo.valid = 0;
  persist(&f->undo.valid, sizeof f->undo.valid);
}

static void update_pair(struct file *f, unsigned i, uint64_t a) {
  f->undo.index = i;
  memcpy(f->undo.old, &f->cell[i], sizeof f->undo.old); // MARK: old
#if BUG != 1
  persist(&f->undo, sizeof f->undo);
#endif
  f->undo.valid = 1; // MARK: valid
#if BUG != 1
  persist(&f->undo.valid, sizeof f->undo.valid);
#endif
  f->cell[i] = a; // MARK: first
  f->cell[i + 1] = a; // MARK: new
#if BUG != 2
  persist(&f->cell[i], 2 * sizeof f->cell[i]);
#endif
  f->undo.valid = 0;
  persist(&f->undo.valid, sizeof f->undo.valid);
}

int main(int argc, char **argv) {
  if (argc > 2)
    ops = &opt_ops;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct file)))
    return 1;
  struct file *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (f == MAP_FAILED)
    return 1;
  rollback(f);
  for (int i = 0; i < 16; i += 2)
    assert(f->cell[i] == f->cell[i + 1]); // MARK: claim
  update_pair(f, 6, 11);
  update_pair(f, 0, 12);
  return 0;
}
