// After a barrier what all have made persistent before it is. Of those who meet there, one is told so.
//@ check: missing-flush at missing-flush
//@ lint: unflushed-write at missing-flush
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
PERSISTENT struct {
  int value;
} parts[2] __attribute__((aligned(64)));
PERSISTENT int complete __attribute__((aligned(64)));
static pthread_barrier_t barrier;
static void *work(void *which) {
  for (int round = 1; round <= 2; round++) {
    parts[(long)which].value = round;
    crashproof_persist(&parts[(long)which], sizeof parts[0]);
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
      complete = round; // MARK: missing-flush
    pthread_barrier_wait(&barrier);
  }
  return 0;
}
int main(void) {
  pthread_barrier_init(&barrier, 0, 2);
  pthread_t thread;
  pthread_create(&thread, 0, work, (void *)1);
  work(0);
  pthread_join(thread, 0);
  crashproof_assert(complete == 2);
  return 0;
}
void recover(void) { crashproof_assert(parts[0].value >= complete && parts[1].value >= complete); }
