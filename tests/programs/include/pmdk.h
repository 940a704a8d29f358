/* What the tests need of libpmemobj and libpmem, as the macros of PMDK expand: declarations only. */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pmemobjpool PMEMobjpool;
typedef struct pmemoid {
  uint64_t pool_uuid_lo;
  uint64_t off;
} PMEMoid;
typedef int (*pmemobj_constr)(PMEMobjpool *pop, void *ptr, void *arg);

enum pobj_tx_stage {
  TX_STAGE_NONE,
  TX_STAGE_WORK,
  TX_STAGE_ONCOMMIT,
  TX_STAGE_ONABORT,
  TX_STAGE_FINALLY,
};

void *pmemobj_direct(PMEMoid oid);
PMEMoid pmemobj_root(PMEMobjpool *pop, size_t size);
PMEMoid pmemobj_first(PMEMobjpool *pop);
PMEMoid pmemobj_next(PMEMoid oid);
void pmemobj_persist(PMEMobjpool *pop, const void *addr, size_t len);
void pmemobj_flush(PMEMobjpool *pop, const void *addr, size_t len);
void pmemobj_drain(PMEMobjpool *pop);
void *pmemobj_memcpy_persist(PMEMobjpool *pop, void *dest, const void *src, size_t len);
void *pmemobj_memset_persist(PMEMobjpool *pop, void *dest, int c, size_t len);
int pmemobj_alloc(PMEMobjpool *pop, PMEMoid *oidp, size_t size, uint64_t type, pmemobj_constr constructor,
                  void *arg);
void pmemobj_free(PMEMoid *oidp);

int pmemobj_tx_begin(PMEMobjpool *pop, jmp_buf env, ...);
enum pobj_tx_stage pmemobj_tx_stage(void);
void pmemobj_tx_process(void);
int pmemobj_tx_end(void);
int pmemobj_tx_errno(void);
int pmemobj_tx_add_range(PMEMoid oid, uint64_t off, size_t size);
int pmemobj_tx_add_range_direct(const void *ptr, size_t size);
PMEMoid pmemobj_tx_alloc(size_t size, uint64_t type);
PMEMoid pmemobj_tx_zalloc(size_t size, uint64_t type);
int pmemobj_tx_free(PMEMoid oid);

#define TX_BEGIN(pop)                                                                                        \
  {                                                                                                          \
    jmp_buf tx_env;                                                                                          \
    enum pobj_tx_stage tx_stage;                                                                             \
    int tx_error = 0;                                                                                        \
    if (_setjmp(tx_env))                                                                                     \
      tx_error = pmemobj_tx_errno();                                                                         \
    else                                                                                                     \
      tx_error = pmemobj_tx_begin(pop, tx_env, 0);                                                           \
    (void)tx_error;                                                                                          \
    while ((tx_stage = pmemobj_tx_stage()) != TX_STAGE_NONE) {                                               \
      switch (tx_stage) {                                                                                    \
      case TX_STAGE_WORK:
#define TX_ONABORT                                                                                           \
  pmemobj_tx_process();                                                                                      \
  break;                                                                                                     \
  case TX_STAGE_ONABORT:
#define TX_END                                                                                               \
  pmemobj_tx_process();                                                                                      \
  break;                                                                                                     \
  default:                                                                                                   \
    pmemobj_tx_process();                                                                                    \
    break;                                                                                                   \
    }                                                                                                        \
    }                                                                                                        \
    pmemobj_tx_end();                                                                                        \
    }
#define D(type, oid) ((type *)pmemobj_direct(oid))
#define TX_ADD(oid, type) pmemobj_tx_add_range(oid, 0, sizeof(type))
#define TX_ADD_FIELD(oid, type, field)                                                                       \
  pmemobj_tx_add_range(oid, offsetof(type, field), sizeof(((type *)0)->field))

void *pmem_map_file(const char *path, size_t len, int flags, unsigned mode, size_t *mapped, int *is_pmem);
void pmem_persist(const void *addr, size_t len);
void pmem_flush(const void *addr, size_t len);
void pmem_drain(void);
void *pmem_memcpy_persist(void *dest, const void *src, size_t len);
