// A mutex that checks for errors tells those who take it twice or give back what is not theirs.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#define _GNU_SOURCE
#include <crashproof.h>
#include <errno.h>
#include <pthread.h>
PERSISTENT long reached;
static pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static void *other(void *unused) {
  crashproof_assert(pthread_mutex_unlock(&lock) == EPERM);
  crashproof_assert(pthread_mutex_trylock(&lock) == EBUSY);
  return unused;
}
int main(void) {
  crashproof_assert(pthread_mutex_lock(&lock) == 0);
  crashproof_assert(pthread_mutex_lock(&lock) == EDEADLK);
  pthread_t thread;
  pthread_create(&thread, 0, other, 0);
  pthread_join(thread, 0);
  crashproof_assert(pthread_mutex_unlock(&lock) == 0);
  reached = 1;
  crashproof_persist(&reached, sizeof reached);
  return 0;
}
void recover(void) {}
