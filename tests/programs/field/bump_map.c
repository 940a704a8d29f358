// Chains of variable length from a bump allocator: the bucket makes a node count, not the end of used memory.
//@ args: {dir}/map
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant node: -DBUG_node
//@ check: recovery-fails at node2
//@ check: recovery-fails at node4
//@ lint: unflushed-write at node
//@ lint: unflushed-write at node2
//@ lint: unflushed-write at node3
//@ lint: unflushed-write at node4
//@ prove: refuted at claim
//@ variant value: -DBUG_value
//@ check: recovery-fails at node4
//@ lint: unflushed-write at node4 (known wrong: lengths that are sums are not compared)
//@ prove: refuted at claim2
#include <assert.h>
#include <fcntl.h>
#include <libpmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define NB 4
struct node { uint64_t next; uint32_t klen, vlen; char kv[]; };
struct map { uint64_t magic; uint64_t brk; uint64_t bucket[NB]; };
#define MAGIC 0x6d6170ull
#define SIZE 8192
struct hm { char *base; struct map *m; };
static unsigned h(const char *s) { unsigned x = 0; while (*s) x = x * 33 + *s++; return x % NB; }
static int hm_open(struct hm *hm, const char *p) {
  size_t l; int ispm;
  if ((hm->base = pmem_map_file(p, SIZE, PMEM_FILE_CREATE, 0644, &l, &ispm)) == NULL) return -1;
  hm->m = (struct map *)hm->base;
  if (hm->m->magic != MAGIC) {
    memset(hm->m, 0, sizeof *hm->m);
    hm->m->brk = 64;
    pmem_persist(hm->m, sizeof *hm->m);
    hm->m->magic = MAGIC;
    pmem_persist(&hm->m->magic, sizeof hm->m->magic);
  }
  return 0;
}
static struct node *get(struct hm *hm, const char *k) {
  for (uint64_t o = hm->m->bucket[h(k)]; o;) {
    struct node *n = (struct node *)(hm->base + o);
    if (n->klen == strlen(k) && !memcmp(n->kv, k, n->klen)) return n;
    o = n->next;
  }
  return NULL;
}
static int set(struct hm *hm, const char *k, const char *v) {
  uint32_t kl = strlen(k), vl = strlen(v);
  uint64_t need = (sizeof(struct node) + kl + vl + 15) & ~15ull;
  if (hm->m->brk + need > SIZE) return -1;
  uint64_t o = hm->m->brk;
  struct node *n = (struct node *)(hm->base + o);
  n->klen = kl; n->vlen = vl; // MARK: node
  n->next = hm->m->bucket[h(k)]; // MARK: node2
  memcpy(n->kv, k, kl); // MARK: node3
  memcpy(n->kv + kl, v, vl); // MARK: node4
#if defined BUG_value
  pmem_flush(n, sizeof *n + kl);
#elif !defined BUG_node
  pmem_flush(n, sizeof *n + kl + vl);
#endif
  hm->m->brk = o + need; 
  pmem_flush(&hm->m->brk, sizeof(uint64_t));
  pmem_drain();
  hm->m->bucket[h(k)] = o;
  pmem_persist(&hm->m->bucket[h(k)], sizeof(uint64_t));
  return 0;
}
int main(int argc, char **argv) {
  struct hm hm;
  if (hm_open(&hm, argv[1])) { perror("open"); return 1; }
  static const char *kv[][2] = { { "color", "blue and then some more text that makes this value long enough to leave the line" }, { "size", "42" }, { "roloc", "eulb" } };
  int missing = 0;
  for (int i = 0; i < 3; i++) {
    struct node *n = get(&hm, kv[i][0]);
    if (!n) { missing = 1; continue; }
    assert(!missing); // MARK: claim
    assert(n->vlen == strlen(kv[i][1]) && !memcmp(n->kv + n->klen, kv[i][1], n->vlen)); // MARK: claim2
    assert((uint64_t)((char *)n - hm.base) < hm.m->brk);
  }
  for (int i = 0; i < 3; i++) if (!get(&hm, kv[i][0])) set(&hm, kv[i][0], kv[i][1]);
  return 0;
}
