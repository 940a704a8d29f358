/*
 * Transactions of libpmemobj, as the prover executes them.
 *
 * A transaction is an undo log. The log itself is the prover's: __crashproof_tx_add writes down what a range holds,
 * durably, under the number of the transaction; a transaction whose number was not committed is undone when the pool
 * is opened. Committing flushes what was added and allocated, and then writes the number down, as the last step. Every
 * thread has a word of its own for that, as every thread has a lane of its own.
 *
 * An abort takes the changes back and jumps to where the transaction began. One inside another undoes nothing yet: it
 * is passed on to the transaction around it when it ends.
 */
#include "pool.h"
#include <stdarg.h>

__attribute__((noreturn)) void longjmp(void *environment, int value);
int pmemobj_mutex_lock(pool *pop, void *lock);
int pmemobj_mutex_unlock(pool *pop, void *lock);
int pmemobj_rwlock_wrlock(pool *pop, void *lock);
int pmemobj_rwlock_unlock(pool *pop, void *lock);
__attribute__((noreturn)) void abort(void);

enum stage { NONE, WORK, ONCOMMIT, ONABORT, FINALLY };
enum parameter { END, MUTEX, RWLOCK, CALLBACK };
enum { DEEPEST = 16, LOCKS = 8, INVAL = 22 };

static _Thread_local struct {
  pool *pop;
  enum stage stage;
  int depth, error;
  long number;
  void *environment[DEEPEST];
  int locks;
  struct {
    enum parameter kind;
    void *lock;
  } lock[LOCKS];
} tx;

static void must(enum stage stage) {
  if (tx.stage != stage)
    abort();
}

MODEL int pmemobj_tx_lock(enum parameter kind, void *lock) {
  must(WORK);
  for (int i = 0; i < tx.locks; i++)
    if (tx.lock[i].lock == lock)
      return 0;
  if (tx.locks == LOCKS) {
    __crashproof_not_modeled("a transaction with so many locks");
    return -1;
  }
  if (kind == MUTEX)
    pmemobj_mutex_lock(tx.pop, lock);
  else
    pmemobj_rwlock_wrlock(tx.pop, lock);
  tx.lock[tx.locks].kind = kind;
  tx.lock[tx.locks++].lock = lock;
  return 0;
}
MODEL int pmemobj_tx_begin(pool *pop, void *environment, ...) {
  if (tx.stage != NONE)
    must(WORK);
  if (tx.depth == DEEPEST) {
    __crashproof_not_modeled("transactions nested so deep");
    return -1;
  }
  if (tx.depth == 0) {
    tx.pop = pop;
    tx.number = __crashproof_tx_number();
    tx.locks = 0;
  }
  tx.error = 0;
  tx.environment[tx.depth++] = environment;
  tx.stage = WORK;
  va_list list;
  va_start(list, environment);
  enum parameter kind;
  while ((kind = va_arg(list, enum parameter)) != END) {
    if (kind == CALLBACK) {
      __crashproof_not_modeled("a callback of a transaction");
      return -1;
    }
    pmemobj_tx_lock(kind, va_arg(list, void *));
  }
  va_end(list);
  return 0;
}
MODEL enum stage pmemobj_tx_stage(void) { return tx.stage; }
MODEL int pmemobj_tx_errno(void) { return tx.error; }

static void commit_number(void) {
  long *committed = __crashproof_lane(0);
  *committed = tx.number;
  persist(committed, sizeof *committed);
}
static void stop(int error) {
  must(WORK);
  tx.error = error;
  tx.stage = ONABORT;
  if (tx.depth == 1) {
    __crashproof_tx_undo(tx.number);
    drain();
    commit_number();
  }
  *__errno_location() = error;
  void *environment = tx.environment[tx.depth - 1];
  if (environment)
    longjmp(environment, error);
}
MODEL void pmemobj_tx_abort(int error) { stop(error ? error : CANCELED); }
MODEL void pmemobj_tx_commit(void) {
  must(WORK);
  if (tx.depth == 1) {
    __crashproof_tx_flush(tx.number);
    drain();
    commit_number();
  }
  tx.stage = ONCOMMIT;
}
MODEL void pmemobj_tx_process(void) {
  switch (tx.stage) {
  case WORK:
    pmemobj_tx_commit();
    break;
  case ONCOMMIT:
  case ONABORT:
    tx.stage = FINALLY;
    break;
  default:
    tx.stage = NONE;
  }
}
MODEL int pmemobj_tx_end(void) {
  if (tx.stage == WORK)
    abort();
  int error = tx.error;
  tx.depth--;
  if (tx.depth == 0) {
    tx.stage = NONE;
    for (int i = 0; i < tx.locks; i++)
      if (tx.lock[i].kind == MUTEX)
        pmemobj_mutex_unlock(tx.pop, tx.lock[i].lock);
      else
        pmemobj_rwlock_unlock(tx.pop, tx.lock[i].lock);
    tx.locks = 0;
  } else {
    tx.stage = WORK;
    if (error)
      stop(error);
  }
  return error;
}

static int add(const void *start, size_t bytes, uint64_t flags) {
  must(WORK);
  __crashproof_tx_add(tx.number, __crashproof_lane(0), start, bytes, flags & (NO_FLUSH | NO_SNAPSHOT));
  return 0;
}
MODEL int pmemobj_tx_add_range_direct(const void *start, size_t bytes) { return add(start, bytes, 0); }
MODEL int pmemobj_tx_xadd_range_direct(const void *start, size_t bytes, uint64_t flags) {
  return add(start, bytes, flags);
}
MODEL int pmemobj_tx_add_range(oid object, uint64_t offset, size_t bytes) {
  return add((char *)direct(object) + offset, bytes, 0);
}
MODEL int pmemobj_tx_xadd_range(oid object, uint64_t offset, size_t bytes, uint64_t flags) {
  return add((char *)direct(object) + offset, bytes, flags);
}

MODEL oid pmemobj_tx_xalloc(size_t bytes, uint64_t type, uint64_t flags) {
  must(WORK);
  if (bytes == 0) {
    stop(INVAL);
    return (oid){0, 0};
  }
  void *object = __crashproof_new_object(bytes, type, flags);
  add(object, bytes, (flags & NO_FLUSH) | NO_SNAPSHOT);
  return oid_of(object);
}
MODEL oid pmemobj_tx_alloc(size_t bytes, uint64_t type) { return pmemobj_tx_xalloc(bytes, type, 0); }
MODEL oid pmemobj_tx_zalloc(size_t bytes, uint64_t type) { return pmemobj_tx_xalloc(bytes, type, ZERO); }
MODEL oid pmemobj_tx_realloc(oid object, size_t bytes, uint64_t type) {
  oid copy = pmemobj_tx_alloc(bytes, type);
  if (object.off) {
    size_t before = __crashproof_pool_size(direct(object));
    memcpy(direct(copy), direct(object), before < bytes ? before : bytes);
  }
  return copy;
}
MODEL oid pmemobj_tx_xstrdup(const char *text, uint64_t type, uint64_t flags) {
  size_t bytes = strlen(text) + 1;
  oid copy = pmemobj_tx_xalloc(bytes, type, flags & ~(uint64_t)ZERO);
  memcpy(direct(copy), text, bytes);
  return copy;
}
MODEL oid pmemobj_tx_strdup(const char *text, uint64_t type) { return pmemobj_tx_xstrdup(text, type, 0); }
MODEL int pmemobj_tx_free(oid object) {
  must(WORK);
  (void)object;
  return 0;
}
MODEL int pmemobj_tx_xfree(oid object, uint64_t flags) {
  (void)flags;
  return pmemobj_tx_free(object);
}
