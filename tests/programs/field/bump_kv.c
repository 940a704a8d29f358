// A key-value store with chained buckets and a bump allocator in a mapped file, as people write it: entries are named by
// offsets, and have a name and a value of any length.
//@ args: {dir}/pool
//@ cflags: -mclwb
//@ prove: skip (verified by running it, after 15 s of unrolling)
//@ variant plain:
//@ check: clean
//@ lint: unknown (`main`)
//@ variant header-flushed: -DHEADER_FLUSHED
//@ check: recovery-fails at value
//@ lint: publish-before-persist at name
//@ lint: unknown (`main`)
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NBUCKET 16
#define POOL_SIZE (1 << 20)
#define MAGIC 0x4b56504d

struct entry { uint64_t next; uint32_t klen, vlen; char data[]; };
struct pool { uint32_t magic; uint32_t version; uint64_t tail; uint64_t count; uint64_t bucket[NBUCKET]; };

static struct pool *P;
static void flush(const void *p, size_t n) {
  for (uintptr_t a = (uintptr_t)p & ~63ul; a < (uintptr_t)p + n; a += 64) _mm_clwb((void *)a);
}
static void persist(const void *p, size_t n) { flush(p, n); _mm_sfence(); }
static void *at(uint64_t off) { return off ? (char *)P + off : NULL; }
static uint32_t hash(const char *k) { uint32_t h = 5381; while (*k) h = h * 33 + (unsigned char)*k++; return h; }

static int open_pool(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0644);
  if (fd < 0) return -1;
  struct stat st; fstat(fd, &st);
  if (st.st_size < POOL_SIZE && ftruncate(fd, POOL_SIZE)) return -1;
  P = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (P == MAP_FAILED) return -1;
  if (P->magic != MAGIC) {
    memset(P, 0, sizeof *P);
    P->version = 1;
    P->tail = (sizeof *P + 63) & ~63ul;
    persist(P, sizeof *P);
    P->magic = MAGIC;
    persist(&P->magic, sizeof P->magic);
  }
  return 0;
}
static struct entry *find(const char *k) {
  for (struct entry *e = at(P->bucket[hash(k) % NBUCKET]); e; e = at(e->next))
    if (e->klen == strlen(k) && !memcmp(e->data, k, e->klen)) return e;
  return NULL;
}
static int put(const char *k, const char *v) {
  size_t kl = strlen(k), vl = strlen(v);
  size_t need = (sizeof(struct entry) + kl + vl + 15) & ~15ul;
  uint64_t off = P->tail;
  if (off + need > POOL_SIZE) return -1;
  P->tail = off + need;
  persist(&P->tail, 8);
  struct entry *e = at(off);
  uint64_t *b = &P->bucket[hash(k) % NBUCKET];
  e->klen = kl; e->vlen = vl;
  memcpy(e->data, k, kl); // MARK: name
  memcpy(e->data + kl, v, vl); // MARK: value
  e->next = *b;
#ifdef HEADER_FLUSHED
  persist(e, sizeof *e);
#else
  persist(e, sizeof *e + kl + vl);
#endif
  *b = off;
  persist(b, 8);
  P->count++;
  persist(&P->count, 8);
  return 0;
}
int main(int argc, char **argv) {
  if (open_pool(argc > 1 ? argv[1] : "kv.pool")) return 1;
  uint64_t n = 0;
  for (int b = 0; b < NBUCKET; b++)
    for (struct entry *e = at(P->bucket[b]); e; e = at(e->next)) {
      n++;
      char want[64]; 
      snprintf(want, sizeof want, "value of %.*s, quite a long one to span lines", (int)e->klen, e->data);
      if (e->vlen != strlen(want) || memcmp(e->data + e->klen, want, e->vlen)) { fprintf(stderr, "bad value for %.*s\n", (int)e->klen, e->data); return 2; }
    }
  if (n != P->count && n != P->count + 1) { fprintf(stderr, "count %lu, found %lu\n", P->count, n); return 3; }
  if (P->count < n) { P->count = n; persist(&P->count, 8); }
  const char *keys[] = {"apple", "banana", "cherry", "fig"};
  for (int i = 0; i < 4; i++)
    if (!find(keys[i])) { char v[64]; snprintf(v, sizeof v, "value of %s, quite a long one to span lines", keys[i]); if (put(keys[i], v)) return 4; }
  return 0;
}
