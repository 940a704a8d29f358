// A binary heap whose redo record is applied in a loop that ends with the record, and flushed up to a rounded end.
//@ args: {dir}/heap
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant valid: -DBUG=2
//@ check: recovery-fails at valid
//@ check: missing-flush at length
//@ lint: unflushed-write at valid
//@ prove: refuted at claim
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define N 8
struct redo { uint64_t valid; uint64_t n; struct { uint64_t idx, val; } e[3]; };
struct heap { struct redo r; uint64_t len; uint64_t pad[7]; uint64_t a[N]; };
static void flush_range(void *addr, unsigned len) {
  char *p = (char *)((unsigned long)addr & ~63UL);
  char *end = (char *)(((unsigned long)addr + len + 63) & ~63UL);
  do { _mm_clflushopt(p); p += 64; } while (p != end);
}
static void persist(void *addr, unsigned len) { flush_range(addr, len); _mm_sfence(); }
static void apply(struct heap *h) {
  for (uint64_t i = 0; i < h->r.n; i++) {
    if (h->r.e[i].idx == N) h->len = h->r.e[i].val; // MARK: length
    else h->a[h->r.e[i].idx] = h->r.e[i].val;
#if BUG != 3
    if (h->r.e[i].idx == N) flush_range(&h->len, 8);
    else flush_range(&h->a[h->r.e[i].idx], 8);
#endif
  }
  _mm_sfence();
  h->r.valid = 0;
  persist(&h->r.valid, 8);
}
static void rec(struct heap *h, uint64_t i, uint64_t v) {
  h->r.e[h->r.n].idx = i;
  h->r.e[h->r.n].val = v;
  h->r.n++;
}
static void commit(struct heap *h) {
#if BUG != 1
  persist(&h->r.n, sizeof h->r - 8);
#endif
  h->r.valid = 1; // MARK: valid
#if BUG != 2
  persist(&h->r.valid, 8);
#endif
  apply(h);
}
static void push(struct heap *h, uint64_t v) {
  uint64_t i = h->len;
  h->r.n = 0;
  rec(h, N, i + 1);
  if (i && h->a[(i - 1) / 2] > v) {
    rec(h, i, h->a[(i - 1) / 2]);
    rec(h, (i - 1) / 2, v);
  } else rec(h, i, v);
  commit(h);
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct heap))) return 1;
  struct heap *h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (h == MAP_FAILED) return 1;
  if (h->r.valid) apply(h);
  for (uint64_t i = 1; i < h->len; i++) assert(h->a[i] >= h->a[(i - 1) / 2]); // MARK: claim
  for (uint64_t i = 0; i < h->len; i++) assert(h->a[i]);
  if (h->len >= 3) return 0;
  push(h, 5); push(h, 3); push(h, 9);
  return 0;
}
