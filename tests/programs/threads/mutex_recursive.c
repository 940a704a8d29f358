// A recursive mutex is taken twice by one thread, and the other waits until it is free again.
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at recovery-fails
//@ prove: refuted at claim (first == 1)
#include <crashproof.h>
#include <pthread.h>
PERSISTENT int first __attribute__((aligned(64)));
PERSISTENT int second __attribute__((aligned(64)));
static pthread_mutex_t lock;
static int inside;
static void deeper(void) {
  pthread_mutex_lock(&lock);
  second = 1; /* while the first is not safe yet */ // MARK: unflushed-write
  pthread_mutex_unlock(&lock);
  crashproof_assert(inside == 1);
}
static void *work(void *unused) {
  pthread_mutex_lock(&lock);
  inside++;
  first = 1; // MARK: recovery-fails
  deeper();
  inside--;
  pthread_mutex_unlock(&lock);
  return unused;
}
int main(void) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&lock, &kind);
  pthread_t thread;
  pthread_create(&thread, 0, work, 0);
  work(0);
}
void recover(void) { crashproof_assert(!second || first == 1); } // MARK: claim
