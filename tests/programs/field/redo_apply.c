// A redo log with entries of variable length (offset, length, bytes), applied by memcpy to computed addresses.
//@ args: {dir}/redo
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant entry: -DBUG=1
//@ check: recovery-fails at bytes
//@ check: recovery-fails at length
//@ check: missing-flush at apply
//@ lint: unflushed-write at offset
//@ lint: unflushed-write at length
//@ lint: unflushed-write at bytes
//@ variant apply: -DBUG=2
//@ check: recovery-fails at apply
//@ lint: unflushed-write at apply
//@ lint: empty-fence at applied
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct entry {
  uint32_t offset;
  uint32_t length;
  uint8_t bytes[24];
};

struct store {
  uint64_t committed;
  uint64_t pad[7];
  struct entry log[4];
  uint8_t data[128];
};

static struct store *S;

static void flush_lines(const void *p, size_t n) {
  for (char *c = (char *)((uintptr_t)p & ~63UL); c < (char *)p + n; c += 64)
    _mm_clwb(c);
}

static void log_write(unsigned slot, void *where, const void *what, uint32_t n) {
  struct entry *e = &S->log[slot];
  e->offset = (uint32_t)((uint8_t *)where - S->data); // MARK: offset
  e->length = n; // MARK: length
  memcpy(e->bytes, what, n); // MARK: bytes
#if BUG != 1
  flush_lines(e, offsetof(struct entry, bytes) + n);
#endif
}

static void replay(void) {
  uint64_t n = S->committed;
  for (uint64_t i = 0; i < n; i++) {
    const struct entry *e = S->log + i;
    memcpy(S->data + e->offset, e->bytes, e->length); // MARK: apply
#if BUG != 2
    flush_lines(S->data + e->offset, e->length);
#endif
  }
  _mm_sfence(); // MARK: applied
  S->committed = 0;
  _mm_clwb(&S->committed);
  _mm_sfence();
}

static void commit(unsigned n) {
  _mm_sfence();
  S->committed = n;
  _mm_clwb(&S->committed);
  _mm_sfence();
  replay();
}

int main(int argc, char **argv) {
  struct stat st;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || fstat(fd, &st) < 0)
    return 1;
  if (st.st_size < (off_t)sizeof(struct store) && ftruncate(fd, sizeof(struct store)) < 0)
    return 1;
  S = mmap(NULL, sizeof *S, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (S == MAP_FAILED)
    return 1;
  if (S->committed)
    replay();
  assert(S->data[0] == S->data[100]); // MARK: claim
  uint8_t v = S->data[0] + 1;
  log_write(0, &S->data[0], &v, 1);
  log_write(1, &S->data[100], &v, 1);
  commit(2);
  return 0;
}
