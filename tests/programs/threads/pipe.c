// Threads that wait for each other through the kernel cannot be scheduled; that is noticed after a while.
//@ check: unknown (kernel)
//@ lint: unflushed-write at unflushed-write
//@ prove: unknown (is not modeled)

#include <crashproof.h>
#include <pthread.h>
#include <unistd.h>

static int ends[2];

static void *receive(void *unused) {
  char byte;
  return read(ends[0], &byte, 1) == 1 ? unused : 0;
}

int main(void) {
  long *pm = crashproof_root(sizeof *pm);
  if (!crashproof_crashes()) {
    *pm = 1; // MARK: unflushed-write
    return 0;
  }
  pthread_t thread;
  if (pipe(ends)) return 1;
  pthread_create(&thread, 0, receive, 0);
  sleep(1);
  if (write(ends[1], "x", 1) != 1) return 1;
  pthread_join(thread, 0);
  return 0;
}
