// Two slots with a generation and a checksum: what is torn does not fit its checksum, so one fence for all of a slot will do.
//@ args: {dir}/slots
//@ prove: skip (written for lint)
//@ variant right: -DBUG=0
//@ check: missing-flush at data
//@ lint: clean
//@ variant none: -DBUG=1
//@ check: unknown (more than 1000 distinct recoveries)
//@ check: missing-flush at data
//@ check: missing-flush at data
//@ lint: unflushed-write at gen
//@ lint: unflushed-write at data
//@ lint: unflushed-write at sum
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct slot { uint64_t gen; uint64_t data[14]; uint64_t sum; };
struct file { struct slot s[2]; };
static uint64_t mix(const struct slot *s) {
  uint64_t h = 1469598103934665603ull ^ s->gen;
  for (int i = 0; i < 14; i++) h = (h ^ s->data[i]) * 1099511628211ull;
  return h;
}
static const struct slot *newest(const struct file *f) {
  const struct slot *best = NULL;
  for (int i = 0; i < 2; i++)
    if (f->s[i].gen && f->s[i].sum == mix(&f->s[i]) && (!best || f->s[i].gen > best->gen)) best = &f->s[i];
  return best;
}
static void save(struct file *f, const uint64_t *data) {
  const struct slot *n = newest(f);
  struct slot *to = n == &f->s[0] ? &f->s[1] : &f->s[0];
  to->gen = n ? n->gen + 1 : 1; // MARK: gen
  memcpy(to->data, data, sizeof to->data); // MARK: data
  to->sum = mix(to); // MARK: sum
#if BUG != 1
  _mm_clwb(to);
#if BUG != 2
  _mm_clwb((char *)to + 64);
#endif
  _mm_sfence();
#endif
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct file))) return 1;
  struct file *f = mmap(0, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (f == MAP_FAILED) return 1;
  const struct slot *n = newest(f);
  if (n) for (int i = 0; i < 14; i++) if (n->data[i] != n->gen * 100 + i) abort();
  uint64_t g = n ? n->gen : 0, d[14];
  for (int r = 0; r < 2; r++) {
    g++;
    for (int i = 0; i < 14; i++) d[i] = g * 100 + i;
    save(f, d);
  }
  return 0;
}
