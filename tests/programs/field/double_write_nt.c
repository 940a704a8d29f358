// A double-write buffer: pages go to the buffer past the cache, then to their home; a header says which is busy.
//@ args: {dir}/dwb
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant fence: -DBUG=1
//@ check: recovery-fails at stream
//@ lint: publish-before-persist at stream
//@ variant home: -DBUG=2
//@ check: recovery-fails at home
//@ lint: unflushed-write at home
//@ variant passed: -DBUG=3
//@ check: recovery-fails at stream
//@ check: missing-flush at busy
//@ lint: publish-before-persist at busy (known wrong: that a streaming store passes a clflush is not judged)
#include <assert.h>
#include <emmintrin.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS 16
typedef struct page {
  uint64_t w[WORDS];
} page;
typedef struct dwb {
  uint64_t busy; /* 1 + page number */
  uint64_t fill[7];
  page buffer;
  page home[3];
} dwb;

static void nt_copy(page *dst, const page *src) {
  for (int i = 0; i < WORDS; i++)
    _mm_stream_si64((long long *)&dst->w[i], (long long)src->w[i]); // MARK: stream
}

static void set_busy(dwb *d, uint64_t v) {
  d->busy = v; // MARK: busy
  _mm_clflush(&d->busy);
#if BUG != 3
  _mm_sfence(); /* streaming stores may pass a clflush */
#endif
}

static void copy_home(dwb *d) {
  page *target = &d->home[d->busy - 1];
  memcpy(target, &d->buffer, sizeof *target); // MARK: home
#if BUG != 2
  for (size_t i = 0; i < sizeof *target; i += 64)
    _mm_clflushopt((char *)target + i);
  _mm_sfence();
#endif
  set_busy(d, 0);
}

static void write_page(dwb *d, unsigned n, const page *p) {
  nt_copy(&d->buffer, p);
#if BUG != 1
  _mm_sfence();
#endif
  set_busy(d, n + 1);
  copy_home(d);
}

int main(int argc, char *argv[]) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0666);
  if (fd < 0 || ftruncate(fd, sizeof(dwb)) != 0)
    return 1;
  dwb *d = mmap(0, sizeof(dwb), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (d == MAP_FAILED)
    return 1;
  if (d->busy)
    copy_home(d);
  for (int n = 0; n < 3; n++)
    for (int i = 1; i < WORDS; i++)
      assert(d->home[n].w[i] == d->home[n].w[0]); // MARK: claim
  for (unsigned round = 1; round <= 2; round++) {
    page p;
    for (int i = 0; i < WORDS; i++)
      p.w[i] = round;
    write_page(d, round, &p);
  }
  return 0;
}
