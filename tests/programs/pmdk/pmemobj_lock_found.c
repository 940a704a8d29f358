// A lock in an object that threads find by following a pointer: its transactions exclude each other.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: proved
#include "pmemobj.h"
#include <pthread.h>
#include <string.h>
struct account {
  char lock[64];
  int from, to;
};
struct root {
  PMEMoid account;
};
static PMEMobjpool *pool;
static struct root *root;
static int fill(PMEMobjpool *pool, void *object, void *amount) {
  struct account *account = object;
  memset(account, 0, sizeof *account);
  account->from = *(int *)amount;
  pmemobj_persist(pool, account, sizeof *account);
  return 0;
}
static void *transfer(void *amount) {
  struct account *account = pmemobj_direct(root->account);
  pmemobj_mutex_lock(pool, account->lock);
  TX_BEGIN(pool) {
    pmemobj_tx_add_range_direct(&account->from, sizeof account->from + sizeof account->to);
    account->from -= (int)(long)amount;
    account->to += (int)(long)amount;
  }
  TX_END
  pmemobj_mutex_unlock(pool, account->lock);
  return 0;
}
int main(void) {
  pool = pmemobj_create("pool", "", 1 << 23, 0666);
  root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
  int amount = 100;
  pmemobj_alloc(pool, &root->account, sizeof(struct account), 1, fill, &amount);
  pthread_t threads[2];
  for (long i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, transfer, (void *)(5 + i));
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
  const struct account *account = pmemobj_direct(root->account);
  crashproof_assert(account->from == 89 && account->to == 11);
  return 0;
}
void recover(void) {
  PMEMobjpool *pool = pmemobj_open("pool", "");
  if (!pool)
    return;
  const struct root *root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
  if (!root->account.off)
    return;
  const struct account *account = pmemobj_direct(root->account);
  crashproof_assert(account->from + account->to == 100);
}
