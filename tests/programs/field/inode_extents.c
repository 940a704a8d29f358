// Inodes with extents: an index into one array never reaches another.
//@ args: {dir}/volume
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant data: -DBUG_data
//@ check: fails at data
//@ lint: fails at data
//@ prove: refuted at claim
//@ variant ext: -DBUG_ext
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant size: -DBUG_size
//@ check: fails at size
//@ lint: fails at size
//@ prove: proved
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
struct extent { uint32_t start, len; };
struct inode { uint32_t size; uint16_t nlink, next; struct extent ext[4]; uint8_t inl[20]; };
struct volume { uint32_t magic, clean; struct inode ino[8]; uint8_t data[16][64]; };
static void nvflush(const void *p, unsigned n) {
  unsigned long a = (unsigned long)p & ~63ul, e = (unsigned long)p + n;
  while (a < e) { asm volatile("clflush %0" : "+m"(*(volatile char *)a)); a += 64; }
}
static void nvbarrier(void) { asm volatile("sfence" ::: "memory"); }
static int vol_append(struct volume *v, int i, const void *buf, uint32_t n, uint32_t at) {
  struct inode *in = &v->ino[i];
  if (in->next == 4) return -1;
  memcpy(v->data[at], buf, n); // MARK: data
#ifndef BUG_data
  nvflush(v->data[at], n);
#endif
  nvbarrier();
  struct extent *e = &in->ext[in->next];
  e->start = at;
  e->len = n; // MARK: ext
#ifndef BUG_ext
  nvflush(e, sizeof *e);
  nvbarrier();
#endif
  in->next++;
  nvflush(&in->next, sizeof in->next);
  nvbarrier();
  in->size += n; // MARK: size
#ifndef BUG_size
  nvflush(&in->size, sizeof in->size);
  nvbarrier();
#endif
  return 0;
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(struct volume))) return 1;
  struct volume *v = mmap(NULL, sizeof *v, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (v == MAP_FAILED) return 1;
  for (int i = 0; i < 8; i++) {
    struct inode *in = &v->ino[i];
    uint32_t sz = 0;
    for (int k = 0; k < in->next; k++) {
      assert(in->ext[k].len > 0 && in->ext[k].start < 16);
      for (uint32_t b = 0; b < in->ext[k].len; b++) assert(v->data[in->ext[k].start][b] == 0x40 + i); // MARK: claim
      sz += in->ext[k].len;
    }
    assert(in->size <= sz);
    if (in->size != sz) { in->size = sz; nvflush(&in->size, 4); nvbarrier(); }
  }
  char buf[48];
  for (int i = 1; i < 3; i++) {
    memset(buf, 0x40 + i, sizeof buf);
    if (!v->ino[i].next && vol_append(v, i, buf, sizeof buf, i)) return 1;
  }
  if (!v->clean) { v->clean = 1; nvflush(&v->clean, 4); nvbarrier(); }
  return 0;
}
