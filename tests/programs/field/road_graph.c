// A graph of towns and roads: a road is durable before its town names it, and the next road names the one before.
//@ args: {dir}/map
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant fence: -DBUG=3
//@ check: recovery-fails at dist
//@ lint: publish-before-persist at from
//@ lint: publish-before-persist at to
//@ lint: publish-before-persist at dist
//@ lint: publish-before-persist at next
//@ prove: refuted at claim
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>
#define NTOWN 8
#define NROAD 8
struct town { char name[24]; uint32_t first_road; uint32_t live; };
struct road { uint32_t from, to, next, dist; };
struct map { struct town towns[NTOWN]; struct road roads[NROAD]; uint32_t ntown, nroad; };
static struct map *m;
static inline void flush(const void *p, size_t n) {
  const char *q = (const char *)p - ((uintptr_t)p % 64);
  do { _mm_clflushopt((void *)q); q += 64; } while (q < (const char *)p + n);
}
static inline void fence(void) { _mm_sfence(); }
static uint32_t town_add(const char *name) {
  uint32_t i = m->ntown + 1;
  struct town *t = &m->towns[i];
  strncpy(t->name, name, sizeof t->name - 1);
  t->first_road = 0;
  t->live = 1;
#if BUG != 1
  flush(t, sizeof *t);
  fence();
#endif
  m->ntown = i;
  flush(&m->ntown, 4);
  fence();
  return i;
}
static void road_add(uint32_t a, uint32_t b, uint32_t dist) {
  uint32_t i = ++m->nroad;
  flush(&m->nroad, 4);
  fence();
  struct road *r = &m->roads[i];
  r->from = a; // MARK: from
  r->to = b; // MARK: to
  r->dist = dist; // MARK: dist
  r->next = m->towns[a].first_road; // MARK: next
#if BUG != 2
  flush(r, sizeof *r);
#endif
#if BUG != 3
  fence();
#endif
  m->towns[a].first_road = i;
#if BUG != 4
  flush(&m->towns[a].first_road, 4);
  fence();
#endif
}
static void verify(void) {
  for (uint32_t i = 1; i <= m->ntown && i < NTOWN; i++) {
    assert(m->towns[i].live);
    assert(m->towns[i].name[0]);
    for (uint32_t e = m->towns[i].first_road; e; e = m->roads[e].next) {
      assert(m->roads[e].from == i);
      assert(m->towns[m->roads[e].to].live == 1); // MARK: claim
      assert(m->roads[e].dist > 0);
    }
  }
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *m) < 0) return 1;
  m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (m == MAP_FAILED) return 1;
  verify();
  if (m->ntown) return 0;
  uint32_t a = town_add("Ulm"), b = town_add("Aalen");
  road_add(a, b, 70);
  uint32_t c = town_add("Kempten");
  road_add(a, c, 88);
  return 0;
}
