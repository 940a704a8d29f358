// Persistent memory comes to a function by way of pthread_create or of a constructor.
//@ check: recovery-fails at lost
//@ prove: refuted at claim
//@ variant argument:
//@ lint: unflushed-write at lost (known wrong: memory handed to a thread is not followed)
//@ variant global: -DGLOBAL
//@ lint: unflushed-write at lost (known wrong: memory handed to a thread is not followed)
//@ variant constructor: -DGLOBAL -DCONSTRUCTOR
//@ lint: unflushed-write at lost (known wrong: what a constructor stores in a global variable is not followed)
#include <crashproof.h>
#include <pthread.h>
struct root {
  long data __attribute__((aligned(64)));
  long done __attribute__((aligned(64)));
};
static struct root *shared;
static long ended;
static void *set(void *argument) {
#ifdef GLOBAL
  struct root *root = shared;
#else
  struct root *root = argument;
#endif
  root->data = 1; // MARK: lost
  root->done = 1;
  crashproof_persist(&root->done, sizeof root->done);
  (void)argument;
  return &ended;
}
#ifdef CONSTRUCTOR
__attribute__((constructor)) static void begin(void) { shared = crashproof_root(sizeof *shared); }
#endif
int main(void) {
#ifndef CONSTRUCTOR
  shared = crashproof_root(sizeof *shared);
#endif
  if (crashproof_crashes()) {
    crashproof_assert(!shared->done || shared->data == 1); // MARK: claim
    return 0;
  }
#ifdef CONSTRUCTOR
  set(0);
#else
  pthread_t thread;
  pthread_create(&thread, 0, set, shared);
  pthread_join(thread, 0);
#endif
  return 0;
}
