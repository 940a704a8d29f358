// A thread that begins in a constructor is one like any other.
//@ variant plain:
//@ flags check: --schedules 8
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant bad: -DBAD
//@ flags check: --schedules 8
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails
//@ prove: refuted at claim-violated

#include <crashproof.h>
#include <pthread.h>

struct root {
  long data __attribute__((aligned(64)));
  long done __attribute__((aligned(64)));
};

static pthread_t thread;
static struct root *root;

static void *store(void *unused) {
  root->data = 1; // MARK: recovery-fails
#ifndef BAD
  crashproof_persist(&root->data, sizeof root->data);
#endif
  return unused;
}

__attribute__((constructor)) static void begin(void) {
  root = crashproof_root(sizeof *root);
  if (!crashproof_crashes())
    pthread_create(&thread, 0, store, 0);
}

int main(void) {
  if (crashproof_crashes()) {
    crashproof_assert(!root->done || root->data); // MARK: claim-violated
    return 0;
  }
  pthread_join(thread, 0);
  root->done = 1;
  crashproof_persist(&root->done, sizeof root->done);
  return 0;
}
