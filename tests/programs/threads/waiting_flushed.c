// The same where every access is followed by a flush: robust.
//@ flags robust: --unwind 2 --flush-every-access
//@ check: clean
//@ lint: unflushed-write at unflushed-write (known wrong: another thread stored what is flushed)
//@ prove: proved
//@ robust: proved
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT atomic_long ready __attribute__((aligned(64)));
PERSISTENT long seen __attribute__((aligned(64)));
static void *write(void *unused) {
  data = 1;
  crashproof_persist(&data, sizeof data);
  ready = 1;
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, write, 0);
  long found;
  do {
    found = ready;
    crashproof_persist(&ready, sizeof ready); // MARK: flush-unmodified
  } while (!found);
  seen = 1; // MARK: unflushed-write
  pthread_join(thread, 0);
  return 0;
}
void recover(void) { crashproof_assert(!seen || (ready && data)); }
