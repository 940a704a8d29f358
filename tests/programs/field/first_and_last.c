// Records of 40 bytes: the lines of the first and of the last byte are all of a record.
//@ args: {dir}/sensors
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant first: -DBUG_first
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant commit: -DBUG_commit
//@ check: fails at commit
//@ lint: fails at commit
//@ prove: refuted at claim
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* 40-byte records: every second one crosses a line */
struct sensor { uint64_t id; double value; uint64_t ts; uint32_t flags; uint32_t crc; uint64_t commit; };
_Static_assert(sizeof(struct sensor) == 40, "size");
struct tbl { uint64_t n; struct sensor s[10]; };
static uint32_t crc(const struct sensor *s) { return (uint32_t)(s->id * 31 + s->ts * 7 + s->flags); }
static inline void line_wb(const void *p) { _mm_clwb((void *)p); }
static void record(struct tbl *t, uint64_t id, double v, uint64_t ts) {
  struct sensor *s = &t->s[t->n];
  s->id = id; // MARK: first
  s->value = v; // MARK: first2
  s->ts = ts; // MARK: first3
  s->flags = 1; // MARK: first4
  s->crc = crc(s); // MARK: first5
  line_wb(s);
#ifndef BUG_first
  line_wb((char *)s + sizeof *s - 1);
#endif
  _mm_sfence();
  s->commit = id; // MARK: commit
#ifndef BUG_commit
  line_wb(&s->commit);
  _mm_sfence();
#endif
  t->n++;
  line_wb(&t->n);
  _mm_sfence();
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(struct tbl))) return 1;
  struct tbl *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (t == MAP_FAILED) return 1;
  for (uint64_t i = 0; i < t->n; i++) { assert(t->s[i].commit == t->s[i].id); assert(t->s[i].id == i + 1); assert(t->s[i].crc == crc(&t->s[i])); } // MARK: claim
  while (t->n < 3) record(t, t->n + 1, 20.5, 1000 + t->n);
  return 0;
}
