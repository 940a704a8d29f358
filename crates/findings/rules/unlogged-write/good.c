#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

/* What this needs of libpmemobj. */
typedef struct pmemobjpool PMEMobjpool;
int pmemobj_tx_begin(PMEMobjpool *pop, jmp_buf env, ...);
int pmemobj_tx_add_range_direct(const void *ptr, size_t size);
void pmemobj_tx_commit(void);
int pmemobj_tx_end(void);

struct account {
  long balance;
  char other_line[64];
  long limit;
};

void raise_limit(PMEMobjpool *pop, struct account *account) {
  jmp_buf env;
  if (pmemobj_tx_begin(pop, env, 0))
    return;
  pmemobj_tx_add_range_direct(&account->balance, sizeof account->balance);
  account->balance = 0;
  pmemobj_tx_add_range_direct(&account->limit, sizeof account->limit);
  account->limit = 100;
  pmemobj_tx_commit();
  pmemobj_tx_end();
}
