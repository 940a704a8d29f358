// Readers do not keep each other out, but writers do.
//@ check: fails-under-schedule
//@ lint: vacuous
//@ prove: refuted at claim (most < 2)
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int readers, most;
static int written;
static void *read(void *unused) {
  pthread_rwlock_rdlock(&lock);
  int now = ++readers;
  if (now > most)
    most = now;
  crashproof_assert(written != 1);
  readers--;
  pthread_rwlock_unlock(&lock);
  return unused;
}
int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, read, 0);
  pthread_rwlock_wrlock(&lock);
  written = 1;
  crashproof_assert(readers == 0);
  written = 2;
  pthread_rwlock_unlock(&lock);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
  crashproof_assert(most < 2); // MARK: claim
  return 0;
}
void recover(void) {}
