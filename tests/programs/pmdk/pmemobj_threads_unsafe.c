// Two threads, each with a transaction of its own, one of which forgets something.
//@ check: skip (it needs libpmemobj itself)
//@ lint: unlogged-write at unlogged-write
//@ prove: refuted at claim (== root[1].b)
#include "pmemobj.h"
#include <pthread.h>
struct pair {
  long a LINE, b LINE;
};
static struct pair *root;
static void *change(void *argument) {
  struct pair *pair = argument;
  TX_BEGIN(pool) {
    TX_ADD(pair->a);
    if (pair == &root[0]) TX_ADD(pair->b);
    pair->a = 1;
    pair->b = 1; // MARK: unlogged-write
  }
  TX_END
  return 0;
}
int main(void) {
  pthread_t one, two;
  root = begin(2 * sizeof *root);
  pthread_create(&one, 0, change, &root[0]);
  pthread_create(&two, 0, change, &root[1]);
  pthread_join(one, 0);
  pthread_join(two, 0);
  return 0;
}
void recover(void) {
  root = find(2 * sizeof *root);
  if (!root)
    return;
  crashproof_assert(root[0].a == root[0].b);
  crashproof_assert(root[1].a == root[1].b); // MARK: claim
}
