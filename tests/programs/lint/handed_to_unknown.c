// A helper hands persistent memory to a function that nothing is known of.
//@ check: skip (a function is missing)
//@ prove: skip (a function is missing)
//@ lint: unknown (PM passed to the unknown function `encode`)
#include <emmintrin.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

void encode(void *to, long bytes);

struct page {
  long header;
  char text[100];
};

static void fill(void *to, long bytes) { encode(to, bytes); }

static void fill_page(struct page *page) { fill(page->text, sizeof page->text); }

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR);
  struct page *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED)
    return 1;
  page->header = 1;
  _mm_clflush(&page->header);
  _mm_sfence();
  fill_page(page);
  return 0;
}
