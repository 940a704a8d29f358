// Transactions on the same data take turns by a lock of the pool, which is forgotten in the crash.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: proved
#include "pmemobj.h"
#include <pthread.h>
struct root {
  char lock[64];
  long a LINE, b LINE;
};
static struct root *root;
static void *change(void *argument) {
  TX_BEGIN_PARAM(pool, 1, root->lock) {
    TX_ADD(root->a);
    TX_ADD(root->b);
    long next = root->a + 1;
    root->a = next;
    root->b = next;
  }
  TX_END
  return argument;
}
int main(void) {
  pthread_t other;
  root = begin(sizeof *root);
  pthread_create(&other, 0, change, 0);
  change(0);
  pthread_join(other, 0);
  return 0;
}
void recover(void) {
  root = find(sizeof *root);
  if (!root)
    return;
  pmemobj_mutex_lock(pool, root->lock);
  crashproof_assert(root->a == root->b && root->a <= 2);
  pmemobj_mutex_unlock(pool, root->lock);
}
