// Two threads: what one has made persistent, the other's flag may rely on.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
static atomic_int ready;
static void *writer(void *unused) {
  data = 1;
  crashproof_persist(&data, sizeof data);
  atomic_store(&ready, 1);
  return unused;
}
static void *reader(void *unused) {
  while (!atomic_load(&ready))
    ;
  flag = 1; // MARK: unflushed-write
  return unused;
}
int main(void) {
  pthread_t a, b;
  pthread_create(&a, 0, writer, 0);
  pthread_create(&b, 0, reader, 0);
  pthread_join(a, 0);
  pthread_join(b, 0);
  return 0;
}
void recover(void) {
  if (flag)
    crashproof_assert(data == 1);
}
