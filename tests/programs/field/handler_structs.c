// A table of structures with functions in them, indexed by the type of a record: any entry may be the one that is called.
//@ args: {dir}/records
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant num: -DBUG_1
//@ check: recovery-fails at second
//@ lint: unflushed-write at first
//@ lint: unflushed-write at second
//@ lint: missing-barrier at sync-text
//@ lint: missing-barrier at sync-type
//@ lint: missing-barrier at sync-count
//@ prove: refuted at claim
//@ variant text: -DBUG_2
//@ check: recovery-fails at text
//@ lint: unflushed-write at text
//@ lint: unflushed-write at end
//@ lint: missing-barrier at sync-num
//@ lint: missing-barrier at sync-type
//@ lint: missing-barrier at sync-count
//@ prove: refuted at claim
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>
struct rec { uint32_t type, ready; union { uint64_t num[2]; char text[40]; } u; };
struct file { uint64_t n; char pad[56]; struct { struct rec r; char pad[64 - sizeof(struct rec)]; } slot[8]; };
struct handler { const char *name; void (*write)(struct rec *, const void *); int (*valid)(const struct rec *); };
static void pm_sync(void *p, size_t len) {
  char *s = (char *)((uintptr_t)p & ~63UL);
  while (s < (char *)p + len) { _mm_clflush(s); s += 64; }
}
static void num_write(struct rec *r, const void *src) {
  const uint64_t *v = src;
  r->u.num[0] = v[0]; // MARK: first
  r->u.num[1] = ~v[0]; // MARK: second
#ifndef BUG_1
  pm_sync(r->u.num, sizeof r->u.num); // MARK: sync-num
#endif
}
static int num_valid(const struct rec *r) { return r->u.num[0] == ~r->u.num[1]; }
static void text_write(struct rec *r, const void *src) {
  size_t n = strlen(src);
  if (n > 39) n = 39;
  memcpy(r->u.text, src, n); // MARK: text
  r->u.text[n] = 0; // MARK: end
#ifndef BUG_2
  pm_sync(r->u.text, n + 1); // MARK: sync-text
#endif
}
static int text_valid(const struct rec *r) { return r->u.text[0] == 't'; }
static const struct handler handlers[] = {{"num", num_write, num_valid}, {"text", text_write, text_valid}};
static struct file *F;
static void append(uint32_t type, const void *src) {
  struct rec *r = &F->slot[F->n].r;
  r->type = type;
  pm_sync(&r->type, 4); // MARK: sync-type
  handlers[type].write(r, src);
  F->n++;
#ifndef BUG_3
  pm_sync(&F->n, 8); // MARK: sync-count
#endif
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0) return 1;
  if (ftruncate(fd, 4096)) return 1;
  F = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (F == MAP_FAILED) return 1;
  for (uint64_t i = 0; i < F->n; i++) {
    struct rec *r = &F->slot[i].r;
    if (r->type > 1) abort();
    if (!handlers[r->type].valid(r)) abort(); // MARK: claim
    if (r->ready && i + 1 != F->n && !F->slot[i + 1].r.type && 0) abort();
  }
  uint64_t v = 77;
  append(0, &v);
  append(1, "text");
  return 0;
}
