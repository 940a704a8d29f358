// A page goes to a buffer first, then home. Recovery hands the buffer to helpers that know it as a plain pointer.
//@ args: {dir}/pages
//@ variant right: -DRIGHT
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant fence: -DBUG_FENCE
//@ check: recovery-fails at copy
//@ lint: publish-before-persist at copy
//@ prove: refuted at copy (not fenced)
#include <err.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 128, PAGES = 2 };
struct file {
  uint64_t valid;
  uint64_t page_no;
  uint64_t pad[6];
  uint64_t copy[PAGE / 8];
  uint64_t page[PAGES][PAGE / 8];
};

static void write_back(void *start, size_t length) {
  for (size_t i = 0; i < length; i += 64) _mm_clflushopt((char *)start + i);
}
static bool is_uniform(const uint64_t *words) {
  for (int i = 1; i < PAGE / 8; i++)
    if (words[i] != words[0]) return false;
  return true;
}
static void set_valid(struct file *f, uint64_t valid) {
  f->valid = valid;
  write_back(&f->valid, 8);
  _mm_sfence();
}
static void write_home(struct file *f, uint64_t no, const uint64_t *from) {
  memcpy(f->page[no], from, PAGE);
  write_back(f->page[no], PAGE);
  _mm_sfence();
}
static void write_page(struct file *f, uint64_t no, const uint64_t *from) {
  memcpy(f->copy, from, PAGE); // MARK: copy
  f->page_no = no;
  write_back(f->copy, PAGE);
  write_back(&f->page_no, 8);
#ifndef BUG_FENCE
  _mm_sfence();
#endif
  set_valid(f, 1);
  write_home(f, no, from);
  set_valid(f, 0);
}
int main(int argc, char **argv) {
  if (argc < 2) return 1;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct file))) return 1;
  struct file *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (f == MAP_FAILED) return 1;
  if (f->valid) {
    if (!is_uniform(f->copy)) errx(3, "the copy is torn");
    write_home(f, f->page_no, f->copy);
    set_valid(f, 0);
  }
  for (int i = 0; i < PAGES; i++)
    if (!is_uniform(f->page[i])) errx(3, "a page is torn");
  uint64_t words[PAGE / 8];
  for (int i = 0; i < PAGE / 8; i++) words[i] = 7;
  write_page(f, 1, words);
  return 0;
}
