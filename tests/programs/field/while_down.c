// A wrapper that counts the remaining bytes down; records go through a cursor.
//@ args: {dir}/cursor
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant record: -DBUG=1
//@ check: recovery-fails at b1
//@ lint: publish-before-persist at a1
//@ lint: publish-before-persist at b1
//@ variant cursor: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at cursor
//@ variant order: -DBUG=3
//@ check: recovery-fails-nothing-lost at line35
//@ lint: publish-before-persist at a
//@ lint: publish-before-persist at b
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct { uint64_t a, b, pad[6]; } rec;
typedef struct { uint64_t cursor, pad[7]; rec recs[8]; } store;

static void wb(void *addr, long n) {
  char *p = addr;
  while (n > 0) {
    _mm_clwb(p);
    p += 64;
    n -= 64;
  }
  _mm_sfence();
}

static void emit(store *s, uint64_t v) {
  rec *r = &s->recs[s->cursor];
#if BUG == 3
  uint64_t at = s->cursor;
  s->cursor = at + 1; // MARK: line35
  wb(&s->cursor, 8);
  r->a = v; // MARK: a
  r->b = v + 1; // MARK: b
  wb(r, sizeof *r);
#else
  r->a = v; // MARK: a1
  r->b = v + 1; // MARK: b1
#if BUG != 1
  wb(r, sizeof *r);
#endif
  s->cursor++; // MARK: cursor
#if BUG != 2
  wb(&s->cursor, sizeof s->cursor);
#endif
#endif
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(store)))
    return 1;
  store *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (s == MAP_FAILED)
    return 1;
  for (uint64_t i = 0; i < s->cursor; i++)
    assert(s->recs[i].b == s->recs[i].a + 1);
  for (uint64_t v = s->cursor; v < 3; v++)
    emit(s, v + 10);
  return 0;
}
