// Memory from calloc is zero, and what is written before it is shown to others is seen by them.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
PERSISTENT long reached;
struct pair {
  atomic_long a, b;
};
static struct pair *_Atomic shared;
static void *reader(void *unused) {
  struct pair *seen = shared;
  if (seen)
    crashproof_assert(seen->a == 1 && seen->b == 0);
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, reader, 0);
  struct pair *pair = calloc(1, sizeof *pair);
  pair->a = 1;
  shared = pair;
  pthread_join(thread, 0);
  reached = 1;
  crashproof_persist(&reached, sizeof reached);
  return 0;
}
void recover(void) {}
