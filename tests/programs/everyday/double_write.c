// A double-write buffer: a page is written to a buffer first; `busy` names the page that the buffer belongs to.
//@ args: {dir}/pages
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at buffer
//@ prove: refuted at torn
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails at page
//@ prove: refuted at torn

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <emmintrin.h>

#define PAGES 4
#define WORDS 16

typedef struct {
  long word[WORDS];
} page_t;

typedef struct {
  int initialized;
  int busy __attribute__((aligned(64))); /* 0, or 1 + number of the page in the buffer */
  page_t buffer __attribute__((aligned(64)));
  page_t page[PAGES] __attribute__((aligned(64)));
} store_t;

static void wb(void *p, unsigned long n) {
  char *c = (char *)((unsigned long)p & ~63UL), *end = (char *)p + n;
  for (; c < end; c += 64)
    _mm_clflush(c);
  _mm_mfence();
}

static void write_page(store_t *s, int number, const page_t *content) {
  s->buffer = *content; // MARK: buffer
#if BUG != 1
  wb(&s->buffer, sizeof s->buffer);
#endif
  s->busy = number + 1; // MARK: busy
  wb(&s->busy, sizeof s->busy);
  s->page[number] = *content; // MARK: page
#if BUG != 2
  wb(&s->page[number], sizeof(page_t));
#endif
  s->busy = 0; // MARK: free
  wb(&s->busy, sizeof s->busy);
}

static void recover_pages(store_t *s) {
  if (s->busy == 0)
    return;
  s->page[s->busy - 1] = s->buffer;
  wb(&s->page[s->busy - 1], sizeof(page_t));
  s->busy = 0;
  wb(&s->busy, sizeof s->busy);
}

static void verify(const store_t *s) {
  for (int p = 0; p < PAGES; p++)
    for (int w = 1; w < WORDS; w++)
      assert(s->page[p].word[w] == s->page[p].word[0]); // MARK: torn
}

int main(int argc, char **argv) {
  (void)argc;
  int fd = open(argv[1], O_CREAT | O_RDWR, 0666);
  ftruncate(fd, sizeof(store_t));
  store_t *s = mmap(0, sizeof(store_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (s == MAP_FAILED)
    return 1;
  if (!s->initialized) {
    s->busy = 0;
    s->initialized = 1;
    wb(s, 128);
  }
  recover_pages(s);
  verify(s);
  page_t content;
  for (int w = 0; w < WORDS; w++)
    content.word[w] = 7;
  write_page(s, 2, &content);
  return 0;
}
