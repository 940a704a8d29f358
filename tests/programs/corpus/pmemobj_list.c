// A sorted doubly linked list on libpmemobj. Insertion and deletion are transactions; nodes come from and go to the allocator,
// which publishes them by reservations that the transaction makes good. A backward walk must see what a forward walk sees.
//@ args: {dir}/pool
//@ cflags: -O1 -lpmemobj
//@ flags check: --setup "{program} {dir}/pool create"
//@ robust: skip (a recovery through libpmemobj, which is not rebuilt, takes 30 ms: check judges each variant once)
//@ variant correct:
//@ variant previous-unlogged: -DBUG_PREVIOUS_UNLOGGED
//@ bug: unlogged|never-flushed at linked-before
//@ tier: slow
//@ variant next-unlogged: -DBUG_NEXT_UNLOGGED
//@ bug: unlogged|never-flushed at linked-behind
//@ tier: slow
//@ variant node-not-initialized: -DBUG_NODE_NOT_INITIALIZED
//@ bug: stored-after-commit|torn-update|never-flushed at outside
//@ tier: slow
//@ variant unlink-unlogged: -DBUG_UNLINK_UNLOGGED
//@ bug: unlogged|never-flushed at unlinked
//@ tier: slow
//@ variant update-persisted-alone: -DBUG_UPDATE_PERSISTED_ALONE
//@ bug: torn-update|stored-after-commit|recovery-wrong at sum
//@ like: DeepMC.5
//@ tier: slow
//@ variant sum-not-persisted: -DBUG_SUM_NOT_PERSISTED
//@ bug: never-flushed at sum-outside
//@ tier: slow
//@ variant pointer-persisted: -DBUG_POINTER_PERSISTED
//@ bug: wrong-address-flushed|never-flushed at head
//@ tier: slow
//@ variant freed-first: -DBUG_FREED_FIRST
//@ bug: stored-after-commit|recovery-wrong|torn-update at freed
//@ tier: slow
//@ variant whole-list-logged: -DBUG_UNMODIFIED_LOGGED
//@ bug: redundant at unmodified
//@ wrong lint: the root object is modified in the same transaction, in another member
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#ifndef KEYS
#define KEYS 4
#endif
#include "objects.h"

#include "driver.h"

#ifdef BUG_ALL
#define BUG_PREVIOUS_UNLOGGED
#define BUG_NEXT_UNLOGGED
#define BUG_UNLINK_UNLOGGED
#define BUG_SUM_NOT_PERSISTED
#define BUG_POINTER_PERSISTED
#endif

POBJ_LAYOUT_BEGIN(list);
POBJ_LAYOUT_ROOT(list, struct list);
POBJ_LAYOUT_TOID(list, struct node);
POBJ_LAYOUT_END(list);

struct node {
  uint64_t key, value;
  TOID(struct node) previous, next;
};

struct list {
  struct progress progress[THREADS];
  uint64_t magic;
  char apart[LINE - sizeof(uint64_t)];
  TOID(struct node) head; /* of a ring: it has key 0 */
  uint64_t sum;           /* of all values */
};

#define MAGIC 0x6c697374

static TOID(struct list) list;

static struct list *root(void) { return D_RW(list); }

static int node_construct(PMEMobjpool *pool, void *object, void *argument) {
  struct node *n = object;
  (void)argument;
  n->key = 0;
  n->value = 0;
  n->previous = n->next = TOID_NULL(struct node);
  pmemobj_persist(pool, n, sizeof *n);
  return 0;
}

/* The head points to itself before the magic says that the list is there. */
static void list_create(void) {
  if (TOID_IS_NULL(root()->head) &&
      pmemobj_alloc(pop, &root()->head.oid, sizeof(struct node), TOID_TYPE_NUM(struct node), node_construct, NULL))
    exit(3);
  TOID(struct node) head = root()->head;
  D_RW(head)->previous = head; // MARK: head
  D_RW(head)->next = head;     // MARK: head
#ifdef BUG_POINTER_PERSISTED
  pmemobj_persist(pop, &root()->head, sizeof head);
#else
  pmemobj_persist(pop, D_RW(head), sizeof(struct node));
#endif
  root()->magic = MAGIC;
  pmemobj_persist(pop, &root()->magic, sizeof(uint64_t));
}

/* The first node whose key is not smaller, or the head. */
static TOID(struct node) seek(uint64_t key) {
  TOID(struct node) head = root()->head, n = D_RO(head)->next;
  while (!TOID_EQUALS(n, head) && D_RO(n)->key < key)
    n = D_RO(n)->next;
  return n;
}

static void sum_change(uint64_t by) {
  TX_ADD_FIELD(list, sum);
  root()->sum += by;
}

static void insert_before(TOID(struct node) n, uint64_t key, uint64_t value) {
  TOID(struct node) before = D_RO(n)->previous;
  TOID(struct node) fresh = TX_NEW(struct node);
  D_RW(fresh)->key = key;
#ifndef BUG_NODE_NOT_INITIALIZED
  D_RW(fresh)->value = value;
#endif
  D_RW(fresh)->previous = before;
  D_RW(fresh)->next = n;
#ifndef BUG_NEXT_UNLOGGED
  TX_ADD_FIELD(before, next);
#endif
  D_RW(before)->next = fresh; // MARK: linked-behind
#ifndef BUG_PREVIOUS_UNLOGGED
  TX_ADD_FIELD(n, previous);
#endif
  D_RW(n)->previous = fresh; // MARK: linked-before
}

static void map_put(uint64_t key, uint64_t value) {
  TOID(struct node) n = seek(key);
  uint64_t old = D_RO(n)->key == key ? D_RO(n)->value : 0;
#ifdef BUG_UPDATE_PERSISTED_ALONE
  if (old) {
    D_RW(n)->value = value; // MARK: sum
    pmemobj_persist(pop, &D_RW(n)->value, sizeof value);
    root()->sum += value - old; // MARK: sum
    pmemobj_persist(pop, &root()->sum, sizeof value);
    return;
  }
#endif
  TX_BEGIN(pop) {
    if (old) {
      TX_ADD_FIELD(n, value);
      D_RW(n)->value = value;
    } else {
      insert_before(n, key, value);
    }
#ifdef BUG_UNMODIFIED_LOGGED
    TX_ADD_FIELD(list, magic); // MARK: unmodified
#endif
#ifndef BUG_SUM_NOT_PERSISTED
    sum_change(value - old);
#endif
  }
  TX_END // MARK: outside
#ifdef BUG_SUM_NOT_PERSISTED
  root()->sum += value - old; // MARK: sum-outside
#endif
#ifdef BUG_NODE_NOT_INITIALIZED
  D_RW(seek(key))->value = value; // MARK: outside
#endif
}

static uint64_t map_get(uint64_t key) {
  TOID(struct node) n = seek(key);
  return D_RO(n)->key == key ? D_RO(n)->value : 0;
}

static void map_delete(uint64_t key) {
  TOID(struct node) n = seek(key);
  if (D_RO(n)->key != key)
    return;
#ifdef BUG_FREED_FIRST
  TOID(struct node) freed = n;
  struct node last = *D_RO(n);
  POBJ_FREE(&freed); // MARK: freed
  TX_BEGIN(pop) {
    TX_ADD_FIELD(last.previous, next);
    D_RW(last.previous)->next = last.next;
    TX_ADD_FIELD(last.next, previous);
    D_RW(last.next)->previous = last.previous;
    sum_change(-last.value);
  }
  TX_END
#else
  TX_BEGIN(pop) {
    TOID(struct node) before = D_RO(n)->previous, behind = D_RO(n)->next;
#ifndef BUG_UNLINK_UNLOGGED
    TX_ADD_FIELD(before, next);
#endif
    D_RW(before)->next = behind; // MARK: unlinked
    TX_ADD_FIELD(behind, previous);
    D_RW(behind)->previous = before;
    sum_change(-D_RO(n)->value);
    TX_FREE(n);
  }
  TX_END
#endif
}

/* Keys grow, neighbors agree, the sum is right, and there are no other nodes. */
static void list_verify(void) {
  TOID(struct node) head = root()->head, n = head;
  uint64_t sum = 0, key = 0, nodes = 0;
  do {
    TOID(struct node) next = D_RO(n)->next;
    VERIFY(TOID_EQUALS(D_RO(next)->previous, n));
    VERIFY(TOID_EQUALS(next, head) || D_RO(next)->key > key);
    key = D_RO(next)->key;
    sum += D_RO(next)->value;
    n = next;
    nodes++;
  } while (!TOID_EQUALS(n, head));
  VERIFY(sum == root()->sum);
  POBJ_FOREACH_TYPE(pop, n)
    nodes--;
  VERIFY(nodes == 0);
}

int main(int argc, char **argv) {
  objects_open(argc, argv, POBJ_LAYOUT_NAME(list));
  list = POBJ_ROOT(pop, struct list);
  if (root()->magic != MAGIC)
    list_create();
  list_verify();
  driver_run(root()->progress, 0);
  list_verify();
  pmemobj_close(pop);
  return 0;
}
