// A rename in steps: an intent record says how far it got; recovery goes on from there.
//@ args: {dir}/state
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant intent: -DBUG=1
//@ check: recovery-fails at intent
//@ lint: unflushed-write at from
//@ lint: unflushed-write at intent
//@ variant step: -DBUG=2
//@ check: recovery-fails at added
//@ lint: unflushed-write at added
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum state { IDLE = 0, PREPARED, ADDED };

struct disk {
  _Alignas(64) uint32_t state;
  uint32_t formatted;
  _Alignas(64) struct {
    uint32_t from, to;
  } intent;
  _Alignas(64) uint64_t entry[32];
};

static void pwb(void *p) { _mm_clwb(p); }
static void pfence(void) { _mm_sfence(); }

static int set_state(struct disk *d, enum state s) {
  d->state = s;
  pwb(&d->state);
  pfence();
  return 0;
}

static int step(struct disk *d) {
  switch ((enum state)d->state) {
  case PREPARED:
    d->entry[d->intent.to] = d->entry[d->intent.from]; // MARK: added
#if BUG != 2
    pwb(&d->entry[d->intent.to]);
    pfence();
#endif
    return set_state(d, ADDED);
  case ADDED:
    d->entry[d->intent.from] = 0;
    pwb(&d->entry[d->intent.from]);
    pfence();
    return set_state(d, IDLE);
  case IDLE:
    break;
  }
  return 1;
}

static int move(struct disk *d, uint32_t from, uint32_t to) {
  if (d->entry[from] == 0 || d->entry[to] != 0)
    return -1;
  d->intent.from = from; // MARK: from
  d->intent.to = to; // MARK: intent
#if BUG != 1
  pwb(&d->intent);
  pfence();
#endif
  set_state(d, PREPARED);
  while (step(d) == 0)
    ;
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct disk)))
    return 1;
  struct disk *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (d == MAP_FAILED)
    return 1;
  while (step(d) == 0)
    ;
  int n = 0;
  for (int i = 0; i < 32; i++)
    if (d->entry[i])
      n++;
  assert(n <= 1); // MARK: claim
  if (!d->formatted) {
    d->entry[3] = 77;
    pwb(&d->entry[3]);
    pfence();
    d->formatted = 1;
    pwb(&d->formatted);
    pfence();
  } else {
    assert(d->entry[3] == 77 || d->entry[20] == 77); // MARK: kept
  }
  move(d, 3, 20);
  return 0;
}
