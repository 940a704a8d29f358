// A matrix is checkpointed past the cache; the epoch number says which half is complete.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant fence: -DBUG=1
//@ lint: publish-before-persist at stream
//@ variant epoch: -DBUG=2
//@ lint: unflushed-write at epoch
//@ variant order: -DBUG=3
//@ lint: publish-before-persist at stream
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CELLS 16

struct checkpoint {
  int64_t epoch __attribute__((aligned(64)));
  int64_t half[2][CELLS] __attribute__((aligned(64)));
};

static struct checkpoint *map_checkpoint(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    return NULL;
  if (ftruncate(fd, sizeof(struct checkpoint)))
    return NULL;
  struct checkpoint *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return c == MAP_FAILED ? NULL : c;
}

static void set_epoch(struct checkpoint *c, int64_t epoch) {
  c->epoch = epoch; // MARK: epoch
#if BUG != 2
  _mm_clwb(&c->epoch);
  _mm_sfence();
#endif
}

static void checkpoint(struct checkpoint *c, const int64_t *cells) {
  int64_t epoch = c->epoch + 1;
#if BUG == 3
  set_epoch(c, epoch);
#endif
  for (int i = 0; i < CELLS; i++)
    _mm_stream_si64((long long *)&c->half[epoch & 1][i], cells[i]); // MARK: stream
#if BUG != 1
  _mm_sfence();
#endif
#if BUG != 3
  set_epoch(c, epoch);
#endif
}

int main(int argc, char **argv) {
  struct checkpoint *c = map_checkpoint(argv[1]);
  if (!c)
    return 1;
  for (int i = 0; i < CELLS; i++)
    assert(c->half[c->epoch & 1][i] == c->epoch * i);
  for (int64_t epoch = c->epoch + 1; epoch <= 2; epoch++) {
    int64_t cells[CELLS];
    for (int i = 0; i < CELLS; i++)
      cells[i] = epoch * i;
    checkpoint(c, cells);
  }
  return 0;
}
