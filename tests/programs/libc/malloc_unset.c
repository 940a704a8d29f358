// Memory from malloc holds anything, also where another thread reads it.
//@ check: vacuous
//@ lint: vacuous
//@ prove: refuted at claim (seen->b == 0) (known wrong: in runs fresh memory of malloc happens to hold zeros, so the counterexample is not reproduced and the answer is UNKNOWN)
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
struct pair {
  atomic_long a, b;
};
static struct pair *_Atomic shared;
static void *reader(void *unused) {
  struct pair *seen = shared;
  if (seen) {
    crashproof_assert(seen->a == 1);
    crashproof_assert(seen->b == 0); // MARK: claim
  }
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, reader, 0);
  struct pair *pair = malloc(sizeof *pair);
  pair->a = 1;
  shared = pair;
  pthread_join(thread, 0);
  return 0;
}
void recover(void) {}
