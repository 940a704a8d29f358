/* What the tests use of libpmemobj's interface. */
#include <crashproof.h>
#include <setjmp.h>

typedef struct pool PMEMobjpool;
typedef struct {
  unsigned long pool_uuid_lo, off;
} PMEMoid;
typedef int constructor(PMEMobjpool *, void *, void *);
PMEMobjpool *pmemobj_create(const char *, const char *, size_t, unsigned);
PMEMobjpool *pmemobj_open(const char *, const char *);
PMEMoid pmemobj_root(PMEMobjpool *, size_t);
void *pmemobj_direct(PMEMoid);
void pmemobj_persist(PMEMobjpool *, const void *, size_t);
int pmemobj_alloc(PMEMobjpool *, PMEMoid *, size_t, unsigned long, constructor *, void *);
int pmemobj_zalloc(PMEMobjpool *, PMEMoid *, size_t, unsigned long);
int pmemobj_strdup(PMEMobjpool *, PMEMoid *, const char *, unsigned long);
void pmemobj_free(PMEMoid *);
unsigned long pmemobj_type_num(PMEMoid);
int pmemobj_mutex_lock(PMEMobjpool *, void *);
int pmemobj_mutex_unlock(PMEMobjpool *, void *);

enum { NONE, WORK, ONCOMMIT, ONABORT, FINALLY };
int pmemobj_tx_begin(PMEMobjpool *, jmp_buf, ...);
int pmemobj_tx_stage(void);
void pmemobj_tx_process(void);
int pmemobj_tx_end(void);
int pmemobj_tx_errno(void);
void pmemobj_tx_abort(int);
int pmemobj_tx_add_range_direct(const void *, size_t);
int pmemobj_tx_xadd_range_direct(const void *, size_t, unsigned long);
PMEMoid pmemobj_tx_alloc(size_t, unsigned long);
PMEMoid pmemobj_tx_zalloc(size_t, unsigned long);
PMEMoid pmemobj_tx_strdup(const char *, unsigned long);

/* The macros of libpmemobj, in short. */
#define TX_BEGIN_PARAM(pool, ...)                                                                            \
  {                                                                                                          \
    jmp_buf environment_;                                                                                    \
    int stage_;                                                                                              \
    if (!setjmp(environment_))                                                                               \
      pmemobj_tx_begin(pool, environment_, __VA_ARGS__, 0);                                                  \
    while ((stage_ = pmemobj_tx_stage()) != NONE) {                                                          \
      switch (stage_) {                                                                                      \
      case WORK:
#define TX_BEGIN(pool) TX_BEGIN_PARAM(pool, 0)
#define TX_STAGE_(stage)                                                                                     \
  pmemobj_tx_process();                                                                                      \
  break;                                                                                                     \
  case stage:
#define TX_ONABORT TX_STAGE_(ONABORT)
#define TX_ONCOMMIT TX_STAGE_(ONCOMMIT)
#define TX_FINALLY TX_STAGE_(FINALLY)
#define TX_END                                                                                               \
  pmemobj_tx_process();                                                                                      \
  break;                                                                                                     \
  default:                                                                                                   \
    pmemobj_tx_process();                                                                                    \
    }                                                                                                        \
    }                                                                                                        \
    pmemobj_tx_end();                                                                                        \
    }
#define TX_ADD(place) pmemobj_tx_add_range_direct(&(place), sizeof(place))

#define LINE __attribute__((aligned(64)))
static PMEMobjpool *pool;
/* The root object of the pool, which is made if there is none; recovery finds none if it never was. */
static inline void *begin(size_t bytes) {
  pool = pmemobj_create("pool", "layout", 1 << 23, 0600);
  return pmemobj_direct(pmemobj_root(pool, bytes));
}
static inline void *find(size_t bytes) {
  pool = pmemobj_open("pool", "layout");
  return pool ? pmemobj_direct(pmemobj_root(pool, bytes)) : 0;
}
