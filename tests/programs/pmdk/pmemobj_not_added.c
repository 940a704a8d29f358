// The second range is not added.
//@ check: skip (it needs libpmemobj itself)
//@ lint: unlogged-write at unlogged-write
//@ prove: refuted at claim (root->a == root->b)
#include <crashproof.h>
#include <setjmp.h>
typedef struct pool PMEMobjpool;
typedef struct {
  unsigned long pool_uuid_lo, off;
} PMEMoid;
PMEMobjpool *pmemobj_create(const char *, const char *, size_t, unsigned);
PMEMobjpool *pmemobj_open(const char *, const char *);
PMEMoid pmemobj_root(PMEMobjpool *, size_t);
void *pmemobj_direct(PMEMoid);
int pmemobj_tx_begin(PMEMobjpool *, jmp_buf, ...);
int pmemobj_tx_stage(void);
void pmemobj_tx_process(void);
int pmemobj_tx_end(void);
int pmemobj_tx_add_range_direct(const void *, size_t);

/* The macros of libpmemobj, in short. */
#define TX_BEGIN(pool)                                                                                       \
  {                                                                                                          \
    jmp_buf environment;                                                                                     \
    int stage;                                                                                               \
    if (!setjmp(environment))                                                                                \
      pmemobj_tx_begin(pool, environment, 0);                                                                \
    while ((stage = pmemobj_tx_stage()) != 0) {                                                              \
      switch (stage) {                                                                                       \
      case 1:
#define TX_END                                                                                               \
        pmemobj_tx_process();                                                                                \
        break;                                                                                               \
      default:                                                                                               \
        pmemobj_tx_process();                                                                                \
      }                                                                                                      \
    }                                                                                                        \
    pmemobj_tx_end();                                                                                        \
  }

struct root {
  long a __attribute__((aligned(64)));
  long b __attribute__((aligned(64)));
};
int main(void) {
  PMEMobjpool *pool = pmemobj_create("pool", "layout", 1 << 23, 0600);
  struct root *root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
  for (long i = 1; i <= 2; i++) {
    TX_BEGIN(pool) {
      pmemobj_tx_add_range_direct(&root->a, sizeof root->a);
      root->a = i;
      root->b = i; // MARK: unlogged-write
    }
    TX_END
  }
  return 0;
}
void recover(void) {
  PMEMobjpool *pool = pmemobj_open("pool", "layout");
  if (!pool)
    return;
  struct root *root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
  crashproof_assert(root->a == root->b); // MARK: claim
}
