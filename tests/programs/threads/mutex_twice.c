// A program that waits for itself says nothing about what comes after.
//@ check: refused (fails without any crash)
//@ lint: vacuous
//@ prove: refuted at claim (the program does not wait forever)
#include <crashproof.h>
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void add(void) {
  pthread_mutex_lock(&lock); // MARK: claim
  pthread_mutex_unlock(&lock);
}
int main(void) {
  pthread_mutex_lock(&lock);
  add();
  crashproof_assert(0);
}
void recover(void) {}
