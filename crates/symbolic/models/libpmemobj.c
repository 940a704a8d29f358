/*
 * libpmemobj, as the prover executes it.
 *
 * A pool is a word that says it was created, a root object and whatever was allocated; the allocator loses nothing in
 * a crash. Offsets are distances from the pool's address, as the inline functions of the headers expect.
 *
 * A transaction is an undo log. The log itself is the prover's: __crashproof_undo_add writes down what a range holds,
 * durably, under the number of the transaction; a transaction whose number was not committed is undone when the pool
 * is opened (__crashproof_undo_apply). Committing flushes what was added and allocated, and then writes the number
 * down, as the last step. Aborting is not modelled: it would have to jump.
 */
#define MODEL __attribute__((weak))
typedef unsigned long size_t;
typedef unsigned long uint64_t;
typedef struct {
  uint64_t pool;
  uint64_t off;
} oid;
typedef struct pool pool;
typedef int (*constructor)(pool *pop, void *object, void *argument);

#define PERSISTENT __attribute__((section("crashproof_pm")))
void *crashproof_root(size_t bytes);
void *crashproof_alloc(size_t bytes);
/* The same, holding whatever was there before. */
void *__crashproof_alloc_unset(size_t bytes);
void crashproof_flush(const void *start, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
void __crashproof_undo_add(long number, const void *start, size_t bytes);
void __crashproof_undo_apply(const long *committed);
void __crashproof_not_modelled(const char *what);

enum { UUID = 0x706f6f6c };
enum stage { NONE, WORK, ONCOMMIT, ONABORT, FINALLY };

static PERSISTENT struct {
  long created;
} header __attribute__((aligned(64)));
static PERSISTENT struct {
  long number;
} committed __attribute__((aligned(64)));

MODEL int _pobj_cache_invalidate;
MODEL _Thread_local struct {
  pool *pop;
  uint64_t uuid;
  int invalidate;
} _pobj_cached_pool;

static void persist(const void *start, size_t bytes) {
  crashproof_flush(start, bytes);
  __asm__ volatile("sfence" ::: "memory");
}
static uint64_t offset_of(const void *object) { return (uint64_t)object - (uint64_t)&header; }
static oid oid_of(const void *object) { return (oid){UUID, offset_of(object)}; }

MODEL pool *pmemobj_create(const char *path, const char *layout, size_t bytes, unsigned mode) {
  (void)path, (void)layout, (void)bytes, (void)mode;
  if (header.created)
    return 0;
  header.created = 1;
  persist(&header, sizeof header);
  return (pool *)&header;
}
MODEL pool *pmemobj_open(const char *path, const char *layout) {
  (void)path, (void)layout;
  if (!header.created)
    return 0;
  __crashproof_undo_apply(&committed.number);
  return (pool *)&header;
}
MODEL int access(const char *path, int mode) {
  (void)path, (void)mode;
  return header.created ? 0 : -1;
}
MODEL void pmemobj_close(pool *pop) { (void)pop; }
MODEL int pmemobj_check(const char *path, const char *layout) {
  (void)path, (void)layout;
  return 1;
}
MODEL const char *pmemobj_errormsg(void) { return ""; }
MODEL pool *pmemobj_pool_by_oid(oid object) { return object.pool == UUID ? (pool *)&header : 0; }
MODEL pool *pmemobj_pool_by_ptr(const void *object) { return object ? (pool *)&header : 0; }
MODEL void *pmemobj_direct(oid object) {
  return object.off == 0 || object.pool != UUID ? 0 : (char *)&header + object.off;
}
MODEL oid pmemobj_oid(const void *object) { return oid_of(object); }
MODEL oid pmemobj_root(pool *pop, size_t bytes) {
  (void)pop;
  return oid_of(crashproof_root(bytes));
}

MODEL void pmemobj_flush(pool *pop, const void *start, size_t bytes) {
  (void)pop;
  crashproof_flush(start, bytes);
}
MODEL void pmemobj_drain(pool *pop) {
  (void)pop;
  __asm__ volatile("sfence" ::: "memory");
}
MODEL void pmemobj_persist(pool *pop, const void *start, size_t bytes) {
  (void)pop;
  persist(start, bytes);
}
MODEL void *pmemobj_memcpy_persist(pool *pop, void *to, const void *from, size_t bytes) {
  (void)pop;
  memcpy(to, from, bytes);
  persist(to, bytes);
  return to;
}
MODEL void *pmemobj_memset_persist(pool *pop, void *to, int byte, size_t bytes) {
  (void)pop;
  memset(to, byte, bytes);
  persist(to, bytes);
  return to;
}

/* An identifier is null if its offset is: that comes last when it is set, and first when it is cleared. */
static void publish(oid *place, oid value) {
  if (!place)
    return;
  place->pool = value.pool;
  persist(&place->pool, sizeof place->pool);
  place->off = value.off;
  persist(&place->off, sizeof place->off);
}
MODEL int pmemobj_alloc(pool *pop, oid *place, size_t bytes, uint64_t type, constructor make, void *argument) {
  (void)type;
  void *object = __crashproof_alloc_unset(bytes);
  if (make && make(pop, object, argument))
    return -1;
  publish(place, oid_of(object));
  return 0;
}
MODEL int pmemobj_zalloc(pool *pop, oid *place, size_t bytes, uint64_t type) {
  (void)pop, (void)type;
  publish(place, oid_of(crashproof_alloc(bytes)));
  return 0;
}
MODEL void pmemobj_free(oid *place) {
  place->off = 0;
  persist(&place->off, sizeof place->off);
}

/* The transaction of each thread. Ranges are flushed at the end. */
enum { RANGES = 64 };
static _Thread_local struct {
  enum stage stage;
  int depth, ranges;
  long number;
  struct {
    const void *start;
    size_t bytes;
  } range[RANGES];
} tx;

static void remember(const void *start, size_t bytes) {
  if (tx.ranges == RANGES) {
    __crashproof_not_modelled("a transaction of more than 64 ranges");
    return;
  }
  tx.range[tx.ranges].start = start;
  tx.range[tx.ranges].bytes = bytes;
  tx.ranges++;
}

MODEL int pmemobj_tx_begin(pool *pop, void *environment, ...) {
  (void)pop, (void)environment;
  if (tx.depth++ == 0) {
    tx.number++;
    tx.ranges = 0;
  }
  tx.stage = WORK;
  return 0;
}
MODEL enum stage pmemobj_tx_stage(void) { return tx.stage; }
MODEL void pmemobj_tx_commit(void) {
  if (tx.depth == 1) {
    for (int i = 0; i < tx.ranges; i++)
      crashproof_flush(tx.range[i].start, tx.range[i].bytes);
    __asm__ volatile("sfence" ::: "memory");
    committed.number = tx.number;
    persist(&committed, sizeof committed);
  }
  tx.stage = ONCOMMIT;
}
MODEL void pmemobj_tx_process(void) {
  if (tx.stage == WORK)
    pmemobj_tx_commit();
  else if (tx.stage == ONCOMMIT || tx.stage == ONABORT)
    tx.stage = FINALLY;
  else
    tx.stage = NONE;
}
MODEL int pmemobj_tx_end(void) {
  tx.depth--;
  tx.stage = tx.depth ? WORK : NONE;
  return 0;
}
MODEL int pmemobj_tx_errno(void) { return 0; }
MODEL void pmemobj_tx_abort(int error) {
  (void)error;
  __crashproof_not_modelled("pmemobj_tx_abort");
}
MODEL int pmemobj_tx_add_range_direct(const void *start, size_t bytes) {
  __crashproof_undo_add(tx.number, start, bytes);
  remember(start, bytes);
  return 0;
}
MODEL int pmemobj_tx_add_range(oid object, uint64_t offset, size_t bytes) {
  return pmemobj_tx_add_range_direct((char *)&header + object.off + offset, bytes);
}
MODEL int pmemobj_tx_xadd_range_direct(const void *start, size_t bytes, uint64_t flags) {
  /* POBJ_XADD_NO_FLUSH is 1, POBJ_XADD_NO_SNAPSHOT is 2. */
  if (!(flags & 2))
    __crashproof_undo_add(tx.number, start, bytes);
  if (!(flags & 1))
    remember(start, bytes);
  return 0;
}
MODEL int pmemobj_tx_xadd_range(oid object, uint64_t offset, size_t bytes, uint64_t flags) {
  return pmemobj_tx_xadd_range_direct((char *)&header + object.off + offset, bytes, flags);
}
MODEL oid pmemobj_tx_alloc(size_t bytes, uint64_t type) {
  (void)type;
  void *object = __crashproof_alloc_unset(bytes);
  remember(object, bytes);
  return oid_of(object);
}
MODEL oid pmemobj_tx_zalloc(size_t bytes, uint64_t type) {
  (void)type;
  void *object = crashproof_alloc(bytes);
  remember(object, bytes);
  return oid_of(object);
}
MODEL int pmemobj_tx_free(oid object) {
  (void)object;
  return 0;
}
