// Hit counters are printed and never flushed: lint warns, and accuses the items alone.
//@ args: {dir}/cache
//@ prove: skip (written for lint)
//@ variant right: -DBUG=0
//@ check: missing-flush at misses
//@ lint: unflushed-write at hits
//@ lint: unflushed-write at misses
//@ lint: unflushed-write at puts
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct stats { uint64_t hits, misses, puts, reserved[5]; };
struct item { uint64_t key; uint64_t val; uint64_t live; uint64_t pad[5]; };
struct cache { struct stats st; struct item it[4]; };
static void persist(void *p, size_t n) {
  for (size_t i = 0; i < n; i += 64) _mm_clwb((char *)p + i);
  _mm_sfence();
}
static struct cache *c;
static int get(uint64_t k, uint64_t *v) {
  for (int i = 0; i < 4; i++)
    if (c->it[i].live && c->it[i].key == k) {
      c->st.hits++; // MARK: hits
      *v = c->it[i].val;
      return 1;
    }
  c->st.misses++; // MARK: misses
  return 0;
}
static void put(uint64_t k, uint64_t v) {
  struct item *e = &c->it[k % 4];
  c->st.puts++; // MARK: puts
  if (e->live && e->key != k) {
    e->live = 0;
    persist(e, sizeof *e);
  }
  e->key = k;
  e->val = v;
#if BUG != 1
  persist(e, sizeof *e);
#endif
  e->live = 1;
#if BUG != 1 && BUG != 2
  persist(e, sizeof *e);
#endif
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *c)) return 1;
  c = mmap(0, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (c == MAP_FAILED) return 1;
  uint64_t v = 0;
  for (uint64_t k = 5; k < 7; k++) {
    if (get(k, &v)) {
      if (v != k * k) abort();
    } else
      put(k, k * k);
  }
  fprintf(stderr, "hits %llu misses %llu puts %llu\n", (unsigned long long)c->st.hits, (unsigned long long)c->st.misses, (unsigned long long)c->st.puts);
  return 0;
}
