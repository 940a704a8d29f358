// What the first thread wrote while it was alone is there for others; what it did not write is not.
//@ check: vacuous
//@ lint: vacuous
//@ prove: refuted (known wrong: no run reproduces what memory held before)
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
struct pair {
  atomic_long a, b;
};
static void *reader(void *argument) {
  struct pair *seen = argument;
  crashproof_assert(seen->a >= 1);
  crashproof_assert(seen->b != 7); // MARK: claim
  return 0;
}
int main(void) {
  struct pair *pair = malloc(sizeof *pair);
  pair->a = 1;
  pthread_t thread;
  pthread_create(&thread, 0, reader, pair);
  pair->a = 2;
  pair->b = 1;
  pthread_join(thread, 0);
  return 0;
}
void recover(void) {}
