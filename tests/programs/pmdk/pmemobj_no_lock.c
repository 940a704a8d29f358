// Transactions do not exclude each other: an increment can be lost.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: refuted at claim (== 2)
#include "pmemobj.h"
#include <pthread.h>
struct root {
  long a;
};
static struct root *root;
static void *change(void *argument) {
  TX_BEGIN(pool) {
    TX_ADD(root->a);
    root->a = root->a + 1;
  }
  TX_END
  return argument;
}
int main(void) {
  pthread_t one, two;
  root = begin(sizeof *root);
  pthread_create(&one, 0, change, 0);
  pthread_create(&two, 0, change, 0);
  pthread_join(one, 0);
  pthread_join(two, 0);
  /* That threads see each other's changes is none of the transactions' business. */
  long sum = root->a;
  crashproof_assert(sum == 2); // MARK: claim
  return 0;
}
void recover(void) {}
