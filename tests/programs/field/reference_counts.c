// Reference counts are counted anew at every start, before anything reads them: they need no flush.
//@ args: {dir}/graph
//@ prove: skip (written for lint)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant type: -DBUG=1
//@ check: recovery-fails at type
//@ lint: unflushed-write at type
//@ lint: unflushed-write at up
//@ lint: unflushed-write at down
//@ lint: unflushed-write at reset
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#define NO 4
#define NR 6
struct obj { uint32_t refs; uint32_t type; uint64_t body[7]; };
struct ref { uint32_t live; uint32_t to; };
struct graph { struct obj o[NO]; struct ref r[NR]; };
static struct graph *g;
static void persist(const void *p, size_t n) {
  const char *c = (const char *)((uintptr_t)p & ~63ul);
  do _mm_clwb((void *)c); while ((c += 64) < (const char *)p + n);
  _mm_sfence();
}
static void count_refs(void) {
  for (int i = 0; i < NO; i++) g->o[i].refs = 0; // MARK: up
  for (int i = 0; i < NR; i++)
    if (g->r[i].live) {
      assert(g->r[i].to < NO && g->o[g->r[i].to].type == 8);
      g->o[g->r[i].to].refs++; // MARK: down
    }
}
static int link_to(uint32_t to) {
  for (int i = 0; i < NR; i++)
    if (!g->r[i].live) {
      if (g->o[to].type == 0) {
        g->o[to].type = 8; // MARK: type
#if BUG != 1
        persist(&g->o[to].type, 4);
#endif
      }
      g->r[i].to = to; // MARK: to
#if BUG != 2
      persist(&g->r[i].to, 4);
#endif
      g->r[i].live = 1; // MARK: live
#if BUG != 2
      persist(&g->r[i].live, 4);
#endif
      g->o[to].refs++; // MARK: reset
      return i;
    }
  return -1;
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *g)) return 1;
  g = mmap(0, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (g == MAP_FAILED) return 1;
  count_refs();
  link_to(1);
  link_to(2);
  return 0;
}
