// Recovery spins on what nobody will ever set: it does not come to an end, which work decides, not the clock.
// While a thread sleeps the others' spinning is in order: its time comes.
//@ lint: unflushed-write at recovery-fails-nothing-lost
//@ variant bad: -DBAD
//@ prove: refuted (known wrong: a thread of recovery that waits is not modeled)
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ check: unknown (recovery has threads, and too many steps for its schedules to be explored)
//@ variant plain:
//@ prove: unknown (threads of recovery that share what one of them writes are not modeled)
//@ flags check: --schedules 3
//@ check: clean

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static long *pm;
static _Atomic int flag;

static void *set_flag(void *unused) {
  sleep(100000);
#ifdef BAD
  while (*pm && flag == 0) {}
#endif
  flag = 1;
  return unused;
}

int main(void) {
  pm = crashproof_root(sizeof *pm);
  pthread_t thread;
  if (crashproof_crashes()) {
    pthread_create(&thread, 0, set_flag, 0);
    while (!flag) {}
    pthread_join(thread, 0);
    return 0;
  }
  *pm = 1; // MARK: recovery-fails-nothing-lost
  return 0;
}
