/*
 * Atomic lists of libpmemobj, as the prover executes them: circular, doubly linked. An operation happens as a whole or
 * not at all, and one at a time: libpmemobj has a lock in the head of each list, here there is one for all.
 */
#include "pool.h"

int pthread_mutex_lock(void *lock);
int pthread_mutex_unlock(void *lock);
static int lock[16];

struct entry {
  oid next, prev;
};
struct head {
  oid first;
};
static struct entry *entry_of(oid object, size_t offset) { return (struct entry *)((char *)direct(object) + offset); }
static int same(oid a, oid b) { return a.off == b.off; }

/* The entry of a new object: nobody looks at it before it is in the list. */
static void fill(struct entry *entry, oid next, oid prev) {
  if (((uint64_t)entry & 63) + sizeof *entry <= 64) {
    entry->next = next;
    entry->prev = prev;
    persist(entry, sizeof *entry);
    return;
  }
  entry->next.pool = next.pool;
  persist(&entry->next.pool, sizeof entry->next.pool);
  entry->next.off = next.off;
  persist(&entry->next.off, sizeof entry->next.off);
  entry->prev.pool = prev.pool;
  persist(&entry->prev.pool, sizeof entry->prev.pool);
  entry->prev.off = prev.off;
  persist(&entry->prev.off, sizeof entry->prev.off);
}
static void set(long number, int fresh, struct entry *entry, oid next, oid prev) {
  if (fresh) {
    fill(entry, next, prev);
  } else {
    __crashproof_set_oid(number, &entry->next, next);
    __crashproof_set_oid(number, &entry->prev, prev);
  }
}
static void link(long number, int fresh, size_t offset, struct head *head, oid dest, int before, oid object) {
  struct entry *entry = entry_of(object, offset);
  if (head->first.off == 0) {
    set(number, fresh, entry, object, object);
    __crashproof_set_oid(number, &head->first, object);
    return;
  }
  int becomes_first = before && (dest.off == 0 || same(dest, head->first));
  if (dest.off == 0)
    dest = before ? head->first : entry_of(head->first, offset)->prev;
  oid next = before ? dest : entry_of(dest, offset)->next;
  oid prev = before ? entry_of(dest, offset)->prev : dest;
  set(number, fresh, entry, next, prev);
  __crashproof_set_oid(number, &entry_of(prev, offset)->next, object);
  __crashproof_set_oid(number, &entry_of(next, offset)->prev, object);
  if (becomes_first)
    __crashproof_set_oid(number, &head->first, object);
}
static void unlink(long number, size_t offset, struct head *head, oid object) {
  struct entry *entry = entry_of(object, offset);
  oid next = entry->next, prev = entry->prev, none = {0, 0};
  if (same(next, object)) {
    __crashproof_set_oid(number, &head->first, none);
  } else {
    __crashproof_set_oid(number, &entry_of(prev, offset)->next, next);
    __crashproof_set_oid(number, &entry_of(next, offset)->prev, prev);
    if (same(head->first, object))
      __crashproof_set_oid(number, &head->first, next);
  }
  __crashproof_set_oid(number, &entry->next, none);
  __crashproof_set_oid(number, &entry->prev, none);
}

static void insert(int fresh, size_t offset, void *head, oid dest, int before, oid object) {
  pthread_mutex_lock(lock);
  long number = __crashproof_together_begin();
  link(number, fresh, offset, head, dest, before, object);
  __crashproof_together_end(number);
  pthread_mutex_unlock(lock);
}
MODEL int pmemobj_list_insert(pool *pop, size_t offset, void *head, oid dest, int before, oid object) {
  (void)pop;
  insert(0, offset, head, dest, before, object);
  return 0;
}
MODEL oid pmemobj_list_insert_new(pool *pop, size_t offset, void *head, oid dest, int before, size_t bytes, uint64_t type,
                                  constructor make, void *argument) {
  void *object = __crashproof_new_object(bytes, type, 0);
  if (make && make(pop, object, argument)) {
    *__errno_location() = CANCELED;
    return (oid){0, 0};
  }
  oid made = oid_of(object);
  insert(1, offset, head, dest, before, made);
  return made;
}
MODEL int pmemobj_list_remove(pool *pop, size_t offset, void *head, oid object, int free) {
  (void)pop, (void)free;
  pthread_mutex_lock(lock);
  long number = __crashproof_together_begin();
  unlink(number, offset, head, object);
  __crashproof_together_end(number);
  pthread_mutex_unlock(lock);
  return 0;
}
MODEL int pmemobj_list_move(pool *pop, size_t old_offset, void *old_head, size_t new_offset, void *new_head, oid dest,
                            int before, oid object) {
  (void)pop;
  pthread_mutex_lock(lock);
  long number = __crashproof_together_begin();
  unlink(number, old_offset, old_head, object);
  link(number, 0, new_offset, new_head, dest, before, object);
  __crashproof_together_end(number);
  pthread_mutex_unlock(lock);
  return 0;
}
