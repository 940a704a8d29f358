// Two copies of an array of doubles; a sequence number with a checksum picks the newer one.
//@ args: {dir}/ckpt
//@ prove: skip (written for lint; not measured with prove yet)
//@ cflags: -mavx2
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant cells: -DBUG=1
//@ check: recovery-fails at stream
//@ lint: publish-before-persist at stream
//@ variant sequence: -DBUG=2
//@ check: recovery-fails at sequence
//@ lint: unflushed-write at sequence
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define N 8

typedef struct {
  double cells[N] __attribute__((aligned(64)));
  uint64_t sequence __attribute__((aligned(64)));
} side_t;

typedef struct {
  side_t side[2];
} ckpt_t;

static void stream(double *to, const double *from) {
  for (int i = 0; i < N; i += 4)
    _mm256_stream_pd(to + i, _mm256_loadu_pd(from + i)); // MARK: stream
}

static void save(ckpt_t *c, const double *cells, uint64_t sequence) {
  side_t *s = &c->side[sequence & 1];
  stream(s->cells, cells);
#if BUG != 1
  _mm_sfence();
#endif
  s->sequence = sequence; // MARK: sequence
#if BUG != 2
  _mm_clwb(&s->sequence);
  _mm_sfence();
#endif
}

static const side_t *newest(const ckpt_t *c) {
  return c->side[0].sequence >= c->side[1].sequence ? &c->side[0] : &c->side[1];
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(ckpt_t)))
    return 1;
  ckpt_t *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (c == MAP_FAILED)
    return 1;
  const side_t *s = newest(c);
  for (int i = 0; i < N; i++)
    assert(s->cells[i] == (double)s->sequence); // MARK: claim
  double cells[N];
  for (uint64_t sequence = s->sequence + 1; sequence <= 3; sequence++) {
    for (int i = 0; i < N; i++)
      cells[i] = (double)sequence;
    save(c, cells, sequence);
  }
  return 0;
}
