// Shadow paging: two copies of the data, and a header that names the valid one; the header alternates.
//@ args: {dir}/shadow
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at line-4
//@ check: recovery-fails at value
//@ check: recovery-fails at line-5
//@ prove: refuted at claim
//@ variant bug-2: -DBUG=2
//@ check: clean
//@ prove: proved

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

typedef struct {
  uint64_t version;
  uint64_t value[7];
} copy_t;

typedef struct {
  uint64_t which;
  uint64_t pad[7];
  copy_t copy[2];
} file_t;

static void flush_line(const void *p) { asm volatile("clflush (%0)" ::"r"(p) : "memory"); }
static void fence(void) { asm volatile("sfence" ::: "memory"); }

static void update(file_t *f, int index, uint64_t value) {
  copy_t *from = &f->copy[f->which & 1], *to = &f->copy[~f->which & 1];
  memcpy(to, from, sizeof *to); // MARK: line-5
  to->value[index] = value; // MARK: value
  to->version = from->version + 1; // MARK: line-4
#if BUG != 1
  flush_line(to);
  fence();
#endif
  f->which ^= 1; // MARK: which
  flush_line(&f->which);
  fence();
#if BUG == 2
  memset(from, 0, sizeof *from);
  f->which = f->which; // MARK: same
#endif
}

int main(int argc, char **argv) {
  (void)argc;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(file_t)) != 0)
    return 1;
  file_t *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (f == MAP_FAILED)
    return 1;
  copy_t *now = &f->copy[f->which & 1];
  uint64_t sum = 0;
  for (int i = 0; i < 7; i++)
    sum += now->value[i];
  assert(sum == now->version); // MARK: claim
  assert(f->which == now->version % 2);
  if (now->version < 2) {
    update(f, (int)now->version, 1);
    update(f, 3, 1);
  }
  return 0;
}
