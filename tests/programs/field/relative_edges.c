// A verification that counts a list: that the rounds which are followed are fewer than it wants hides nothing behind it.
//@ args: {dir}/graph
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: skip (not measured)
//@ variant early: -DBUG_1
//@ check: recovery-fails at next
//@ lint: unflushed-write at to
//@ lint: unflushed-write at weight
//@ lint: unflushed-write at next
//@ prove: skip (not measured)
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <emmintrin.h>
typedef ptrdiff_t rel;
struct edge { uint32_t to, weight; rel next; uint64_t pad[6]; };
struct vertex { rel edges; uint64_t degree; uint64_t pad[6]; };
struct graph { rel free; uint64_t init; uint64_t pad[6]; struct vertex v[4]; struct edge pool[12]; };
static struct graph *G;
static void *abs_(rel r) { return r ? (char *)G + r : NULL; }
static rel rel_(void *p) { return (char *)p - (char *)G; }
static void sync_(void *p, size_t n) {
  for (uintptr_t a = (uintptr_t)p & ~(uintptr_t)63; a < (uintptr_t)p + n; a += 64) _mm_clflush((void *)a);
  _mm_mfence();
}
static bool add_edge(unsigned from, unsigned to, unsigned weight) {
  struct edge *e = abs_(G->free);
  if (!e) return false;
  rel rest = e->next;
  struct vertex *v = &G->v[from];
  G->free = rest;
  sync_(&G->free, sizeof G->free);
  e->to = to; // MARK: to
  e->weight = weight; // MARK: weight
  e->next = v->edges; // MARK: next
#ifdef BUG_1
  if (weight > 5) { v->edges = rel_(e); sync_(&v->edges, 8); return true; }
#endif
  sync_(e, sizeof *e);
  v->edges = rel_(e);
#ifndef BUG_2
  sync_(&v->edges, sizeof v->edges);
#endif
  v[0].degree = v->degree + 1;
  sync_(&v->degree, sizeof v->degree);
  G->v[3].degree++;
  sync_(&G->v[3].degree, 8);
  return true;
}
static void setup(void) {
  for (int i = 0; i < 11; i++) G->pool[i].next = rel_(&G->pool[i + 1]);
  G->pool[11].next = 0;
#ifndef BUG_3
  sync_(G->pool, sizeof G->pool);
#endif
  G->free = rel_(&G->pool[0]);
  sync_(&G->free, 8);
  G->init = 1;
  sync_(&G->init, 8);
}
static void fail(const char *why) { fprintf(stderr, "graph: %s\n", why); exit(EXIT_FAILURE); }
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *G)) fail("file");
  G = mmap(0, sizeof *G, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (G == MAP_FAILED) fail("map");
  if (!G->init) setup();
  int free_count = 0;
  for (struct edge *e = abs_(G->free); e; e = abs_(e->next)) if (++free_count > 12) fail("cycle");
  if (free_count < 12 - 2 * 4) fail("free list lost");
  for (int i = 0; i < 4; i++) {
    int n = 0;
    for (struct edge *e = abs_(G->v[i].edges); e; e = abs_(e->next)) { if (e->to == 0 || e->weight == 0) fail("edge"); if (++n > 12) fail("loop"); }
    if (i < 3 && (uint64_t)n < G->v[i].degree) fail("degree");
  }
  if (G->v[1].degree == 0) { add_edge(1, 2, 9); add_edge(1, 3, 4); }
  return 0;
}
