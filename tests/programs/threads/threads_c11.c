// Threads, locks and once of C11.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <threads.h>
PERSISTENT long first __attribute__((aligned(64)));
PERSISTENT long second __attribute__((aligned(64)));
static mtx_t lock;
static once_flag once = ONCE_FLAG_INIT;
static int begun;
static void begin(void) { begun++; }
static int add(void *by) {
  call_once(&once, begin);
  mtx_lock(&lock);
  mtx_lock(&lock); /* it is recursive */
  first += (long)by;
  crashproof_persist(&first, sizeof first);
  mtx_unlock(&lock);
  second = first;
  crashproof_persist(&second, sizeof second);
  mtx_unlock(&lock);
  return (int)(long)by + 10;
}
int main(void) {
  mtx_init(&lock, mtx_plain | mtx_recursive);
  thrd_t threads[2];
  for (long i = 0; i < 2; i++)
    thrd_create(&threads[i], add, (void *)(i + 1));
  for (int i = 0; i < 2; i++) {
    int result;
    thrd_join(threads[i], &result);
    crashproof_assert(result == 11 + i);
  }
  crashproof_assert(first == 3 && second == 3 && begun == 1);
  return 0;
}
void recover(void) { crashproof_assert(second <= first && first <= second + 2); }
