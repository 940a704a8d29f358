// Two slots for a superblock with a checksum, the older one is replaced: a flush through the pointer to it is for what was
// stored through it, not for the data before.
//@ args: {dir}/disk
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant data: -DBUG_1
//@ check: recovery-fails at data
//@ lint: unflushed-write at data
//@ prove: refuted at data
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <immintrin.h>
struct extent { uint32_t start, len; };
struct super { uint64_t seq; uint32_t next; uint32_t count; struct extent ext[5]; uint64_t sum; };
_Static_assert(sizeof(struct super) == 64, "one line");
struct disk { struct super sb[2]; char data[1024]; };
static uint64_t checksum(const struct super *s) {
  uint64_t h = 0xcbf29ce484222325ull;
  const unsigned char *p = (const unsigned char *)s;
  for (size_t i = 0; i < offsetof(struct super, sum); i++) h = (h ^ p[i]) * 0x100000001b3ull;
  return h | 1;
}
static struct disk *d;
static void flush(void *p, size_t n) {
  for (char *c = (char *)((uintptr_t)p & ~63ul); c < (char *)p + n; c += 64) _mm_clwb(c);
}
static struct super *newest(void) {
  struct super *best = NULL;
  for (int i = 0; i < 2; i++)
    if (d->sb[i].sum == checksum(&d->sb[i]) && (!best || d->sb[i].seq > best->seq)) best = &d->sb[i];
  return best;
}
static void append(const char *what, uint32_t n) {
  struct super *cur = newest(), *nxt, tmp;
  if (cur) { tmp = *cur; nxt = cur == &d->sb[0] ? &d->sb[1] : &d->sb[0]; }
  else { memset(&tmp, 0, sizeof tmp); nxt = &d->sb[0]; }
  if (tmp.count == 5) return;
  memcpy(d->data + tmp.next, what, n); // MARK: data
#ifndef BUG_1
  flush(d->data + tmp.next, n);
#endif
#ifndef BUG_2
  _mm_sfence();
#endif
  tmp.ext[tmp.count].start = tmp.next;
  tmp.ext[tmp.count++].len = n;
  tmp.next += n;
  tmp.seq++;
  tmp.sum = checksum(&tmp);
  *nxt = tmp;
#ifndef BUG_3
  flush(nxt, sizeof *nxt);
  _mm_sfence();
#endif
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_CREAT | O_RDWR, 0640);
  if (fd < 0 || ftruncate(fd, sizeof *d)) return 1;
  d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (d == MAP_FAILED) return 1;
  struct super *s = newest();
  if (s)
    for (uint32_t i = 0; i < s->count; i++)
      for (uint32_t j = 0; j < s->ext[i].len; j++) if (d->data[s->ext[i].start + j] != "AB"[i & 1]) abort();
  append("AAAA", 4);
  append("BBBBBBBB", 8);
  return 0;
}
