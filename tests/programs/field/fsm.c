// A state machine in persistent memory: each step stores its result before the state advances.
//@ args: {dir}/fsm
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant result: -DBUG=1
//@ check: recovery-fails at result
//@ lint: unflushed-write at result
//@ variant state: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at state
//@ variant fence: -DBUG=3
//@ check: recovery-fails at result
//@ lint: publish-before-persist at result
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { IDLE, HASHED, SIGNED, SENT };

struct job {
  uint32_t state;
  uint32_t pad[15];
  uint64_t result[4][8];
};

typedef uint64_t (*step_fn)(const struct job *);
static uint64_t hash_step(const struct job *j) { (void)j; return 17; }
static uint64_t sign_step(const struct job *j) { return j->result[0][0] + 1; }
static uint64_t send_step(const struct job *j) { return j->result[1][0] + 1; }
static const step_fn steps[] = {hash_step, sign_step, send_step};

static void run(struct job *j) {
  while (j->state < SENT) {
    uint32_t s = j->state;
    j->result[s][0] = steps[s](j); // MARK: result
#if BUG != 1
    _mm_clwb(&j->result[s][0]);
#if BUG != 3
    _mm_sfence();
#endif
#endif
    j->state = s + 1; // MARK: state
#if BUG != 2
    _mm_clwb(&j->state);
    _mm_sfence();
#endif
  }
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct job)))
    return 1;
  struct job *j = mmap(NULL, sizeof *j, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (j == MAP_FAILED)
    return 1;
  for (uint32_t s = 0; s < j->state; s++)
    assert(j->result[s][0] == 17 + s);
  run(j);
  return 0;
}
