// Recovery has threads of its own. What they find depends on which is first; the first schedule gets through.
//@ lint: skip (order between threads of recovery)
//@ prove: skip (check's schedules of recovery)
//@ variant plain:
//@ check: recovery-fails at lost
//@ variant ordered: -DORDERED
//@ check: clean
#include <crashproof.h>
#include <pthread.h>
struct data {
  long done;
  char apart[64 - sizeof(long)];
  long value;
};
PERSISTENT struct data data;
static void *repair(void *unused) {
  data.value = 42;
  crashproof_persist(&data.value, sizeof data.value);
  return unused;
}
static void *verify(void *unused) {
  crashproof_assert(!data.done || data.value == 42);
  return unused;
}
int main(void) {
  data.value = 42; // MARK: lost
  data.done = 1;
  crashproof_persist(&data.done, sizeof data.done);
  return 0;
}
void recover(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], 0, repair, 0);
#ifdef ORDERED
  pthread_join(threads[0], 0);
#endif
  pthread_create(&threads[1], 0, verify, 0);
#ifndef ORDERED
  pthread_join(threads[0], 0);
#endif
  pthread_join(threads[1], 0);
}
