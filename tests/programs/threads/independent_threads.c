// Two threads that have nothing to do with each other: there is one schedule, up to equivalence, but a crash may find
// either of them finished and the other not begun.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules of real runs)
//@ variant first: -DBEFORE=first -DAFTER=second
//@ flags check: --schedules all
//@ check: recovery-fails-nothing-lost at end
//@ variant second: -DBEFORE=second -DAFTER=first
//@ flags check: --schedules all
//@ check: recovery-fails at begun

#include <crashproof.h>
#include <pthread.h>

struct line {
  long begun;
  long ended;
} __attribute__((aligned(64)));
PERSISTENT struct line first, second;

static void *run(void *argument) {
  struct line *line = argument;
  line->begun = 1; // MARK: begun
  crashproof_persist(line, sizeof *line);
  line->ended = 1; // MARK: end
  crashproof_persist(line, sizeof *line);
  return 0;
}

int main(void) {
  if (crashproof_crashes())
    return BEFORE.ended && !AFTER.begun;
  pthread_t threads[2];
  pthread_create(&threads[0], 0, run, &first);
  pthread_create(&threads[1], 0, run, &second);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  return 0;
}
