// pmemobj_alloc gives memory as it was left by others.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: refuted at claim (== 0)
#include <crashproof.h>
typedef struct pool PMEMobjpool;
typedef struct {
  unsigned long pool_uuid_lo, off;
} PMEMoid;
PMEMobjpool *pmemobj_create(const char *, const char *, size_t, unsigned);
PMEMobjpool *pmemobj_open(const char *, const char *);
PMEMoid pmemobj_root(PMEMobjpool *, size_t);
void *pmemobj_direct(PMEMoid);
int pmemobj_alloc(PMEMobjpool *, PMEMoid *, size_t, unsigned long, int (*)(PMEMobjpool *, void *, void *), void *);
int pmemobj_zalloc(PMEMobjpool *, PMEMoid *, size_t, unsigned long);
int main(void) {
  PMEMobjpool *pool = pmemobj_create("pool", "layout", 1 << 23, 0600);
  PMEMoid *root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
  pmemobj_alloc(pool, root, 8, 1, 0, 0);
  return 0;
}
void recover(void) {
  PMEMobjpool *pool = pmemobj_open("pool", "layout");
  PMEMoid *root = pool ? pmemobj_direct(pmemobj_root(pool, sizeof *root)) : 0;
  if (root && root->off)
    crashproof_assert(*(long *)pmemobj_direct(*root) == 0); // MARK: claim
}
