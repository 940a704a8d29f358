// Persistent memory is followed into a thread: as its argument, in a variable, or in one that a constructor has set.
//@ variant argument: -DARGUMENT
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: skip (what lint and check say is compared here)
//@ variant variable: -DVARIABLE
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: skip (what lint and check say is compared here)
//@ variant constructor: -DVARIABLE -DCONSTRUCTOR
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: skip (what lint and check say is compared here)
//@ variant flushed: -DARGUMENT -DFLUSH
//@ check: clean
//@ lint: clean
//@ prove: skip (what lint and check say is compared here)
//@ cflags: -pthread
#include <crashproof.h>
#include <pthread.h>

static long *shared;
#ifdef CONSTRUCTOR
__attribute__((constructor)) static void begin(void) {
  shared = crashproof_root(256);
}
#endif

static void *set(void *passed) {
#ifdef VARIABLE
  long *root = shared;
#else
  long *root = passed;
#endif
  root[0] = 1; // MARK: LOST
#ifdef FLUSH
  crashproof_persist(root, sizeof *root);
#endif
  (void)passed;
  return 0;
}

int main(void) {
  long *root = crashproof_root(256);
  if (crashproof_crashes()) {
    crashproof_assert(!root[16] || root[0] == 1);
    return 0;
  }
  shared = root;
  pthread_t thread;
  pthread_create(&thread, 0, set, root);
  pthread_join(thread, 0);
  root[16] = 1;
  crashproof_persist(&root[16], sizeof root[16]);
  return 0;
}
