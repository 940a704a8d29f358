// The first thread leaves with pthread_exit; the last one to go ends the process, and handlers still run.
// A thread that nobody waits for keeps what it stored.
//@ flags check: --schedules 8
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: unknown (joins something that is no thread)

#include <crashproof.h>
#include <pthread.h>
#include <stdlib.h>

static long *pm;

static void at_exit(void) {
  crashproof_assert(*pm == 3);
  *pm = 4;
}

static void *last(void *first) {
  crashproof_assert(pthread_join(*(pthread_t *)first, 0) == 0);
  *pm += 1; // MARK: unflushed-write
  return 0;
}

int main(void) {
  pm = crashproof_root(sizeof *pm);
  if (crashproof_crashes()) {
    crashproof_assert(*pm <= 4);
    return 0;
  }
  static pthread_t self, thread;
  self = pthread_self();
  atexit(at_exit);
  *pm = 2;
  pthread_create(&thread, 0, last, &self);
  pthread_detach(thread);
  pthread_exit(0);
}
