/*
 * What the parts of the model of libpmemobj share.
 *
 * A pool is a file that exists, a root object and whatever was allocated; the allocator loses nothing in
 * a crash. Offsets are distances from the pool's address, as the inline functions of libpmemobj's headers expect.
 */
#define MODEL __attribute__((weak))
#define PERSISTENT __attribute__((section("crashproof_pm")))
typedef unsigned long size_t;
typedef unsigned long uint64_t;
typedef struct {
  uint64_t pool;
  uint64_t off;
} oid;
typedef struct pool pool;
typedef int (*constructor)(pool *pop, void *object, void *argument);

void crashproof_flush(const void *start, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
size_t strlen(const char *text);
int strcmp(const char *left, const char *right);
int *__errno_location(void);

/* Carried out by the prover: see pool.rs and transactions.rs. */
void *__crashproof_about(const char *path);
void *__crashproof_pool_root(size_t bytes);
void *__crashproof_pool_alloc(size_t bytes, uint64_t type, int zeroed, int plain);
uint64_t __crashproof_pool_type(const void *object);
size_t __crashproof_pool_size(const void *object);
void *__crashproof_shadow(const void *lock);
/* A persistent word of the thread: the number of what it committed last, of transactions (0) or of other operations (1). */
long *__crashproof_lane(int kind);
long __crashproof_tx_number(void);
void __crashproof_tx_add(long number, const long *committed, const void *start, size_t bytes, uint64_t flags);
void __crashproof_tx_flush(long number);
void __crashproof_tx_undo(long number);
void __crashproof_tx_recover(void);
void __crashproof_not_modeled(const char *what);
void __crashproof_assume(int condition);
unsigned long crashproof_nondet_ulong(void);

enum { UUID = 0x706f6f6c, NO_ENTRY = 2, EXISTS = 17, CANCELED = 125 };
/* Flags of allocations and of ranges that are added. */
enum { ZERO = 1, NO_FLUSH = 2, NO_SNAPSHOT = 4 };

extern struct pool_header {
  long unused;
} __crashproof_pool_header;

static inline void drain(void) { __asm__ volatile("sfence" ::: "memory"); }
static inline void persist(const void *start, size_t bytes) {
  crashproof_flush(start, bytes);
  drain();
}
static inline int in_pool(const void *place) { return (uint64_t)place >> 44 != 0; }
static inline void *direct(oid object) { return (char *)&__crashproof_pool_header + object.off; }
static inline oid oid_of(const void *object) {
  return (oid){UUID, (uint64_t)object - (uint64_t)&__crashproof_pool_header};
}

/* Several words that change together or not at all: libpmemobj has a redo log for that, here it is an undo log. Words are
   written one by one, in order: what the library does to get there is not what is asked about. */
long __crashproof_together_begin(void);
void __crashproof_together_set(long number, uint64_t *place, uint64_t value);
void __crashproof_together_end(long number);
void __crashproof_set_oid(long number, oid *place, oid value);

/* An object as pmemobj_xalloc makes it. */
void *__crashproof_new_object(size_t bytes, uint64_t type, uint64_t flags);
