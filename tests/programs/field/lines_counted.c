// A wrapper that counts cache lines instead of bytes.
//@ args: {dir}/img
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant pixels: -DBUG=1
//@ check: recovery-fails at pixels
//@ lint: unflushed-write at pixels
//@ variant width: -DBUG=2
//@ check: recovery-fails at height
//@ lint: unflushed-write at width
//@ lint: unflushed-write at height
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct image {
  uint32_t ready;
  uint32_t pad0[15];
  uint32_t width, height;
  uint32_t pad1[14];
  uint8_t pixels[256];
};

static void flush_lines(const void *p, size_t bytes) {
  size_t lines = (bytes + 63) / 64;
  for (size_t i = 0; i < lines; i++)
    _mm_clflushopt((char *)p + i * 64);
  _mm_sfence();
}

static void fill(struct image *img, uint8_t shade) {
  img->width = 16; // MARK: width
  img->height = 16; // MARK: height
#if BUG != 2
  flush_lines(&img->width, 8); // MARK: line36
#endif
  memset(img->pixels, shade, sizeof img->pixels); // MARK: pixels
#if BUG != 1
  flush_lines(img->pixels, sizeof img->pixels); // MARK: line40
#endif
  img->ready = 1;
  flush_lines(&img->ready, sizeof img->ready); // MARK: line43
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct image)))
    return 1;
  struct image *img = mmap(NULL, sizeof *img, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (img == MAP_FAILED)
    return 1;
  if (img->ready) {
    assert(img->width * img->height == 256);
    for (int i = 0; i < 256; i++)
      assert(img->pixels[i] == 9);
  } else {
    fill(img, 9);
  }
  return 0;
}
