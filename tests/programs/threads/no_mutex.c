//@ flags check: --schedules 64
//@ check: fails-under-schedule at fails-under-schedule
//@ lint: unflushed-write at fails-under-schedule
//@ prove: refuted at claim (counter == 3)
#include <crashproof.h>
#include <pthread.h>
PERSISTENT volatile long counter;
static void *add(void *by) {
  counter += (long)by; // MARK: fails-under-schedule
  return 0;
}
int main(void) {
  pthread_t threads[2];
  for (long i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, add, (void *)(i + 1));
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);

  crashproof_assert(counter == 3); // MARK: claim
  return 0;
}
void recover(void) {}
