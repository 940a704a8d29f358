// A word index: strings appended to a heap, hash buckets hold offsets.
//@ args: {dir}/index
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant word: -DBUG=1
//@ check: recovery-fails at word
//@ lint: unflushed-write at word
//@ lint: unflushed-write at chain
//@ variant bucket: -DBUG=2
//@ check: missing-flush at bucket
//@ lint: unflushed-write at bucket
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUCKETS 8
typedef uint32_t ref;

struct word {
  ref next;
  char text[28];
};

struct index {
  ref bucket[BUCKETS] __attribute__((aligned(64)));
  uint32_t count __attribute__((aligned(64)));
  struct word words[16] __attribute__((aligned(64)));
};

static struct index *ix;

static void persist(const void *p, size_t n) {
  const char *end = (const char *)p + n;
  for (const char *c = (const char *)((uintptr_t)p & ~(uintptr_t)63); c < end; c += 64)
    _mm_clwb((void *)c);
  _mm_sfence();
}

static unsigned hash(const char *s) {
  unsigned h = 5381;
  while (*s)
    h = h * 33 + (unsigned char)*s++;
  return h % BUCKETS;
}

static ref lookup(const char *s) {
  for (ref r = ix->bucket[hash(s)]; r; r = ix->words[r - 1].next)
    if (!strcmp(ix->words[r - 1].text, s))
      return r;
  return 0;
}

static ref intern(const char *s) {
  ref r = lookup(s);
  if (r)
    return r;
  if (strlen(s) >= sizeof ix->words[0].text || ix->count >= 16)
    return 0;
  unsigned h = hash(s);
  struct word *w = &ix->words[ix->count];
  strcpy(w->text, s); // MARK: word
  w->next = ix->bucket[h]; // MARK: chain
#if BUG == 0 || BUG == 2
  persist(w, sizeof *w);
#elif BUG == 3
  persist(w->text, sizeof w->text);
#endif
  ix->count++;
  persist(&ix->count, sizeof ix->count);
  ix->bucket[h] = ix->count; // MARK: bucket
#if BUG != 2
  persist(&ix->bucket[h], sizeof(ref));
#endif
  return ix->count;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *ix))
    return 1;
  ix = mmap(NULL, sizeof *ix, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (ix == MAP_FAILED)
    return 1;
  for (int b = 0; b < BUCKETS; b++)
    for (ref r = ix->bucket[b]; r; r = ix->words[r - 1].next) {
      assert(r <= ix->count);
      assert(hash(ix->words[r - 1].text) == (unsigned)b && ix->words[r - 1].text[0]);
    }
  return intern("alpha") && intern("omega") && intern("alpha") ? 0 : 1;
}
