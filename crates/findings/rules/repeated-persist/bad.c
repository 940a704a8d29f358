#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

/* What this needs of libpmemobj. */
typedef struct pmemobjpool PMEMobjpool;
int pmemobj_tx_begin(PMEMobjpool *pop, jmp_buf env, ...);
int pmemobj_tx_add_range_direct(const void *ptr, size_t size);
void pmemobj_tx_commit(void);
int pmemobj_tx_end(void);

void increment(PMEMobjpool *pop, long *counter) {
  jmp_buf env;
  if (pmemobj_tx_begin(pop, env, 0))
    return;
  pmemobj_tx_add_range_direct(counter, sizeof *counter);
  *counter += 1;
  pmemobj_tx_add_range_direct(counter, sizeof *counter);
  *counter += 1;
  pmemobj_tx_commit();
  pmemobj_tx_end();
}
