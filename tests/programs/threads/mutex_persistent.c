// A mutex in persistent memory may be found taken after a crash, by nobody who could give it back.
//@ check: recovery-fails-nothing-lost at taken
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: refuted at claim
#include <crashproof.h>
#include <pthread.h>
PERSISTENT pthread_mutex_t lock;
PERSISTENT int value __attribute__((aligned(64)));
int main(void) {
  pthread_mutex_lock(&lock); // MARK: taken
  value = 1; // MARK: unflushed-write
  pthread_mutex_unlock(&lock);
  return 0;
}
void recover(void) {
  pthread_mutex_lock(&lock); // MARK: claim
  value = 2; // MARK: unflushed-write-2
  pthread_mutex_unlock(&lock);
}
