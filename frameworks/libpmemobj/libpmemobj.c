/* libpmemobj, as the prover executes it: pools, objects, and memory made persistent. */
#include "pool.h"

PERSISTENT struct pool_header __crashproof_pool_header __attribute__((aligned(64)));

MODEL int _pobj_cache_invalidate;
MODEL _Thread_local struct {
  pool *pop;
  uint64_t uuid;
  int invalidate;
} _pobj_cached_pool;

/* The pool exists if its file does; that is durable as soon as it is so. */
static unsigned long *existence(const char *path) { return __crashproof_about(path); }

MODEL pool *pmemobj_create(const char *path, const char *layout, size_t bytes, unsigned mode) {
  (void)layout, (void)mode;
  unsigned long *about = existence(path);
  if (about[0]) {
    *__errno_location() = EXISTS;
    return 0;
  }
  about[1] = bytes;
  about[0] = 1;
  persist(about, 2 * sizeof *about);
  return (pool *)&__crashproof_pool_header;
}
MODEL pool *pmemobj_open(const char *path, const char *layout) {
  (void)layout;
  if (!*existence(path)) {
    *__errno_location() = NO_ENTRY;
    return 0;
  }
  __crashproof_tx_recover();
  return (pool *)&__crashproof_pool_header;
}
MODEL void pmemobj_close(pool *pop) { (void)pop; }
MODEL int pmemobj_check(const char *path, const char *layout) {
  (void)path, (void)layout;
  return 1;
}
MODEL const char *pmemobj_errormsg(void) { return ""; }
MODEL const char *pmemobj_check_version(unsigned major, unsigned minor) {
  (void)major, (void)minor;
  return 0;
}
MODEL void _pobj_debug_notice(const char *function, const char *file, int line) {
  (void)function, (void)file, (void)line;
}
MODEL pool *pmemobj_pool_by_oid(oid object) { return object.pool == UUID ? (pool *)&__crashproof_pool_header : 0; }
MODEL pool *pmemobj_pool_by_ptr(const void *object) { return in_pool(object) ? (pool *)&__crashproof_pool_header : 0; }
MODEL void *pmemobj_direct(oid object) { return object.off == 0 || object.pool != UUID ? 0 : direct(object); }
MODEL oid pmemobj_oid(const void *object) { return oid_of(object); }
__attribute__((noreturn)) void abort(void);
MODEL uint64_t pmemobj_type_num(oid object) {
  /* The library would look for a pool where there is none. */
  if (object.off == 0)
    abort();
  return __crashproof_pool_type(direct(object));
}
MODEL oid pmemobj_root(pool *pop, size_t bytes) {
  (void)pop;
  return oid_of(__crashproof_pool_root(bytes));
}
MODEL oid pmemobj_root_construct(pool *pop, size_t bytes, constructor make, void *argument) {
  (void)pop, (void)bytes, (void)make, (void)argument;
  __crashproof_not_modeled("pmemobj_root_construct");
  return (oid){0, 0};
}

MODEL void pmemobj_flush(pool *pop, const void *start, size_t bytes) {
  (void)pop;
  crashproof_flush(start, bytes);
}
MODEL void pmemobj_drain(pool *pop) {
  (void)pop;
  drain();
}
MODEL void pmemobj_persist(pool *pop, const void *start, size_t bytes) {
  (void)pop;
  persist(start, bytes);
}
MODEL int pmemobj_xflush(pool *pop, const void *start, size_t bytes, unsigned flags) {
  (void)flags;
  pmemobj_flush(pop, start, bytes);
  return 0;
}
MODEL int pmemobj_xpersist(pool *pop, const void *start, size_t bytes, unsigned flags) {
  (void)flags;
  pmemobj_persist(pop, start, bytes);
  return 0;
}
/* Flags of the functions below. */
enum { NODRAIN = 1, NOFLUSH = 32 };
static void *finish(void *to, size_t bytes, unsigned flags) {
  if (!(flags & NOFLUSH)) {
    crashproof_flush(to, bytes);
    if (!(flags & NODRAIN))
      drain();
  }
  return to;
}
MODEL void *pmemobj_memcpy(pool *pop, void *to, const void *from, size_t bytes, unsigned flags) {
  (void)pop;
  return finish(memcpy(to, from, bytes), bytes, flags);
}
MODEL void *pmemobj_memmove(pool *pop, void *to, const void *from, size_t bytes, unsigned flags) {
  (void)pop;
  return finish(memmove(to, from, bytes), bytes, flags);
}
MODEL void *pmemobj_memset(pool *pop, void *to, int byte, size_t bytes, unsigned flags) {
  (void)pop;
  return finish(memset(to, byte, bytes), bytes, flags);
}
MODEL void *pmemobj_memcpy_persist(pool *pop, void *to, const void *from, size_t bytes) {
  return pmemobj_memcpy(pop, to, from, bytes, 0);
}
MODEL void *pmemobj_memset_persist(pool *pop, void *to, int byte, size_t bytes) {
  return pmemobj_memset(pop, to, byte, bytes, 0);
}

long __crashproof_together_begin(void) { return __crashproof_tx_number(); }
void __crashproof_together_set(long number, uint64_t *place, uint64_t value) {
  if (in_pool(place))
    __crashproof_tx_add(number, __crashproof_lane(1), place, sizeof *place, NO_FLUSH);
  *place = value;
  if (in_pool(place))
    persist(place, sizeof *place);
}
void __crashproof_together_end(long number) {
  long *committed = __crashproof_lane(1);
  *committed = number;
  persist(committed, sizeof *committed);
}
void __crashproof_set_oid(long number, oid *place, oid value) {
  /* Mostly there is one pool. */
  if (place->pool != value.pool)
    __crashproof_together_set(number, &place->pool, value.pool);
  __crashproof_together_set(number, &place->off, value.off);
}

/* Tells where an object is: nobody can see half of that. */
static void publish(oid *place, oid value) {
  if (!place)
    return;
  if (!in_pool(place)) {
    *place = value;
  } else if (place->pool == value.pool) {
    place->off = value.off;
    persist(&place->off, sizeof place->off);
  } else {
    long number = __crashproof_together_begin();
    __crashproof_set_oid(number, place, value);
    __crashproof_together_end(number);
  }
}

/* Allocation classes. Those of libpmemobj itself come first. */
enum { FIRST_CLASS = 128, CLASSES = 16, HEADER_NONE = 2 };
struct class {
  size_t unit_size, alignment;
  unsigned units_per_block, header_type, class_id;
};
static struct class classes[CLASSES];
static unsigned class_count;
MODEL int pmemobj_ctl_set(pool *pop, const char *name, void *argument) {
  (void)pop;
  if (strcmp(name, "heap.alloc_class.new.desc") != 0 || class_count == CLASSES) {
    __crashproof_not_modeled("this setting of pmemobj_ctl_set");
    return -1;
  }
  struct class *class = argument;
  class->class_id = FIRST_CLASS + class_count;
  classes[class_count++] = *class;
  return 0;
}
static const struct class *class_of(uint64_t flags) {
  uint64_t id = flags >> 48;
  if (id == 0)
    return 0;
  if (id < FIRST_CLASS || id >= FIRST_CLASS + class_count) {
    __crashproof_not_modeled("this allocation class");
    return 0;
  }
  return &classes[id - FIRST_CLASS];
}
void *__crashproof_new_object(size_t bytes, uint64_t type, uint64_t flags) {
  const struct class *class = class_of(flags);
  int plain = class && class->header_type == HEADER_NONE;
  if (plain)
    bytes = (bytes + class->unit_size - 1) / class->unit_size * class->unit_size;
  return __crashproof_pool_alloc(bytes, plain ? 0 : type, (flags & ZERO) != 0, plain);
}
MODEL size_t pmemobj_alloc_usable_size(oid object) {
  size_t size = __crashproof_pool_size(direct(object));
  for (unsigned i = 0; i < class_count; i++)
    if (classes[i].header_type == HEADER_NONE && size % classes[i].unit_size == 0)
      return size;
  size_t usable = crashproof_nondet_ulong();
  __crashproof_assume(usable >= size);
  return usable;
}

MODEL int pmemobj_xalloc(pool *pop, oid *place, size_t bytes, uint64_t type, uint64_t flags, constructor make,
                         void *argument) {
  void *object = __crashproof_new_object(bytes, type, flags);
  if (make && make(pop, object, argument)) {
    *__errno_location() = CANCELED;
    return -1;
  }
  publish(place, oid_of(object));
  return 0;
}
MODEL int pmemobj_alloc(pool *pop, oid *place, size_t bytes, uint64_t type, constructor make, void *argument) {
  return pmemobj_xalloc(pop, place, bytes, type, 0, make, argument);
}
MODEL int pmemobj_zalloc(pool *pop, oid *place, size_t bytes, uint64_t type) {
  return pmemobj_xalloc(pop, place, bytes, type, ZERO, 0, 0);
}
static int copy_string(pool *pop, void *object, void *text) {
  pmemobj_memcpy_persist(pop, object, text, strlen(text) + 1);
  return 0;
}
MODEL int pmemobj_strdup(pool *pop, oid *place, const char *text, uint64_t type) {
  return pmemobj_alloc(pop, place, strlen(text) + 1, type, copy_string, (void *)text);
}
MODEL int pmemobj_realloc(pool *pop, oid *place, size_t bytes, uint64_t type) {
  if (place->off == 0)
    return pmemobj_alloc(pop, place, bytes, type, 0, 0);
  void *old = direct(*place);
  size_t before = __crashproof_pool_size(old);
  void *object = __crashproof_new_object(bytes, type, 0);
  pmemobj_memcpy_persist(pop, object, old, before < bytes ? before : bytes);
  publish(place, oid_of(object));
  return 0;
}
MODEL void pmemobj_free(oid *place) {
  if (place->off)
    publish(place, (oid){0, 0});
}

/* Locks in the pool are volatile: whatever they held before is forgotten when the pool is opened. */
int pthread_mutex_lock(void *lock);
int pthread_mutex_trylock(void *lock);
int pthread_mutex_unlock(void *lock);
int pthread_rwlock_rdlock(void *lock);
int pthread_rwlock_wrlock(void *lock);
int pthread_rwlock_unlock(void *lock);
MODEL void pmemobj_mutex_zero(pool *pop, void *lock) { (void)pop, (void)lock; }
MODEL void pmemobj_rwlock_zero(pool *pop, void *lock) { (void)pop, (void)lock; }
MODEL int pmemobj_mutex_lock(pool *pop, void *lock) {
  (void)pop;
  return pthread_mutex_lock(__crashproof_shadow(lock));
}
MODEL int pmemobj_mutex_trylock(pool *pop, void *lock) {
  (void)pop;
  return pthread_mutex_trylock(__crashproof_shadow(lock));
}
MODEL int pmemobj_mutex_unlock(pool *pop, void *lock) {
  (void)pop;
  return pthread_mutex_unlock(__crashproof_shadow(lock));
}
MODEL int pmemobj_rwlock_rdlock(pool *pop, void *lock) {
  (void)pop;
  return pthread_rwlock_rdlock(__crashproof_shadow(lock));
}
MODEL int pmemobj_rwlock_wrlock(pool *pop, void *lock) {
  (void)pop;
  return pthread_rwlock_wrlock(__crashproof_shadow(lock));
}
MODEL int pmemobj_rwlock_unlock(pool *pop, void *lock) {
  (void)pop;
  return pthread_rwlock_unlock(__crashproof_shadow(lock));
}
