// A durable lock-free set: a sorted list whose links are marked to delete (Harris), made durable as NVTraverse does it: an
// operation persists the links that it builds on, then what it changes. Two threads share all neighborhoods.
//@ args: {dir}/pool
//@ cflags: -O1
//@ flags check: --schedules 1
//@ variant correct:
//@ flags check: --schedules 4
//@ variant node-not-flushed: -DBUG_NODE_NOT_FLUSHED
//@ bug: never-flushed at node
//@ variant node-pointer-flushed: -DBUG_NODE_POINTER_FLUSHED
//@ bug: wrong-address-flushed|never-flushed at node
//@ tier: slow
//@ variant node-flushed-early: -DBUG_NODE_FLUSHED_EARLY
//@ bug: never-flushed at late
//@ tier: slow
//@ variant link-not-flushed: -DBUG_LINK_NOT_FLUSHED
//@ bug: never-flushed at link
//@ tier: slow
//@ variant mark-not-flushed: -DBUG_MARK_NOT_FLUSHED
//@ bug: never-flushed at deleted
//@ variant reader-publishes: -DBUG_READER_PUBLISHES
//@ bug: flushed-too-late|wrong-order at link
//@ flags check: --schedules 16
//@ tier: slow
//@ variant used-not-flushed: -DBUG_USED_NOT_FLUSHED
//@ bug: never-flushed at used
//@ tier: slow
//@ variant update-not-flushed: -DBUG_UPDATE_NOT_FLUSHED
//@ bug: never-flushed at update
//@ tier: slow
//@ variant recovery-not-flushed: -DBUG_RECOVERY_NOT_FLUSHED
//@ bug: never-flushed at trimmed
//@ flags check: --crashes 2
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#define THREADS 2
#define KEYS 4
#define KEY_OF(thread, i) (2 * (uint64_t)(i) + (thread))
#include "driver.h"

#include <stdatomic.h>

#ifdef BUG_ALL
#define BUG_NODE_NOT_FLUSHED
#define BUG_LINK_NOT_FLUSHED
#define BUG_MARK_NOT_FLUSHED
#define BUG_USED_NOT_FLUSHED
#define BUG_UPDATE_NOT_FLUSHED
#define BUG_READER_PUBLISHES
#endif

#define NODES 48

/* A link is the number of the next node, shifted, and a bit that says that the node with the link is deleted. */
#define DELETED 1ull
#define TO(link) ((link) >> 1)
#define LINK(number) ((uint64_t)(number) << 1)

struct node {
  uint64_t key;
  _Atomic uint64_t value;
  _Atomic uint64_t next;
} __attribute__((aligned(LINE)));

struct set {
  uint64_t magic __attribute__((aligned(LINE)));
  _Atomic uint64_t used __attribute__((aligned(LINE))); /* nodes handed out; number 0 is the head, and the end */
  struct progress progress[THREADS] __attribute__((aligned(LINE)));
  struct node nodes[NODES];
};

#define MAGIC 0x7365745eull

static struct set *set;

static struct node *node(uint64_t number) { return &set->nodes[number]; }

static uint64_t node_new(void) {
  uint64_t number = atomic_fetch_add(&set->used, 1); // MARK: used
#ifndef BUG_USED_NOT_FLUSHED
  persist(&set->used, sizeof set->used);
#endif
  if (number >= NODES)
    exit(3);
  return number;
}

/* Its mark is what deletes a node. That it is unlinked may be lost at any time. */
static int unlink_deleted(uint64_t before, uint64_t at, uint64_t next) {
  uint64_t expected = LINK(at);
  crashproof_tolerate_begin();
  int done = atomic_compare_exchange_strong(&node(before)->next, &expected, next);
  crashproof_tolerate_end();
  return done;
}

/* The last node with a smaller key, and the one behind it. Unlinks what is deleted on the way. */
static void find(uint64_t key, uint64_t *before, uint64_t *at) {
  uint64_t parent;
again:
  parent = *before = 0;
  for (;;) {
    uint64_t link = atomic_load(&node(*before)->next);
    if (link & DELETED)
      goto again;
    *at = TO(link);
    if (!*at)
      break;
    uint64_t next = atomic_load(&node(*at)->next);
    if (next & DELETED) {
      persist(&node(*at)->next, sizeof next);
      if (!unlink_deleted(*before, *at, next & ~DELETED))
        goto again;
      continue;
    }
    if (node(*at)->key >= key)
      break;
    parent = *before;
    *before = *at;
  }
#ifndef BUG_READER_PUBLISHES
  /* Whatever this operation tells its caller rests on these links. Whoever made the ones before them did the same. */
  flush(&node(parent)->next, sizeof(uint64_t));
  persist(&node(*before)->next, sizeof(uint64_t));
#endif
}

static void map_put(uint64_t key, uint64_t value) {
  for (;;) {
    uint64_t before, at;
    find(key, &before, &at);
    if (at && node(at)->key == key) {
      atomic_store_explicit(&node(at)->value, value, memory_order_release); // MARK: update
#ifndef BUG_UPDATE_NOT_FLUSHED
      persist(&node(at)->value, sizeof value);
#endif
      return;
    }
    uint64_t number = node_new();
    struct node *fresh = node(number);
#ifdef BUG_NODE_FLUSHED_EARLY
    persist(fresh, sizeof *fresh);
#endif
#ifdef BUG_NODE_FLUSHED_EARLY
    fresh->key = key;                                                      // MARK: late
    atomic_store_explicit(&fresh->value, value, memory_order_relaxed);     // MARK: late
    atomic_store_explicit(&fresh->next, LINK(at), memory_order_relaxed);   // MARK: late
#else
    fresh->key = key; // MARK: node
    atomic_store_explicit(&fresh->value, value, memory_order_relaxed); // MARK: node
    atomic_store_explicit(&fresh->next, LINK(at), memory_order_relaxed); // MARK: node
#ifdef BUG_NODE_POINTER_FLUSHED
    persist(&fresh, sizeof fresh);
#elif !defined BUG_NODE_NOT_FLUSHED
    persist(fresh, sizeof *fresh);
#endif
#endif
    uint64_t expected = LINK(at);
    if (atomic_compare_exchange_strong(&node(before)->next, &expected, LINK(number))) { // MARK: link
#ifndef BUG_LINK_NOT_FLUSHED
      persist(&node(before)->next, sizeof(uint64_t));
#endif
      return;
    }
  }
}

static uint64_t map_get(uint64_t key) {
  for (uint64_t at = TO(atomic_load(&node(0)->next)); at;) {
    uint64_t next = atomic_load(&node(at)->next);
    if (node(at)->key == key && !(next & DELETED))
      return atomic_load(&node(at)->value);
    at = TO(next);
  }
  return 0;
}

static void map_delete(uint64_t key) {
  for (;;) {
    uint64_t before, at;
    find(key, &before, &at);
    if (!at || node(at)->key != key)
      return;
    uint64_t next = atomic_load(&node(at)->next);
    if (next & DELETED)
      continue;
    if (!atomic_compare_exchange_strong(&node(at)->next, &next, next | DELETED)) // MARK: deleted
      continue;
#ifndef BUG_MARK_NOT_FLUSHED
    persist(&node(at)->next, sizeof next);
#endif
    unlink_deleted(before, at, next);
    return;
  }
}

/* Unlinks what was deleted but not unlinked, and checks that the list is sorted and ends. */
static void recover_list(void) {
  uint64_t last = 0;
  for (uint64_t before = 0;;) {
    uint64_t at = TO(atomic_load(&node(before)->next));
    if (!at)
      break;
    VERIFY(at < NODES && at < atomic_load(&set->used));
    uint64_t next = atomic_load(&node(at)->next);
    if (next & DELETED) {
      atomic_store_explicit(&node(before)->next, next & ~DELETED, memory_order_relaxed); // MARK: trimmed
#ifndef BUG_RECOVERY_NOT_FLUSHED
      persist(&node(before)->next, sizeof next);
#endif
      continue;
    }
    VERIFY(node(at)->key > last);
    last = node(at)->key;
    before = at;
  }
}

int main(int argc, char **argv) {
  set = pool_map(argc > 1 ? argv[1] : "/mnt/pmem/set", sizeof *set);
  int fresh = set->magic != MAGIC;
  if (fresh) {
    atomic_store_explicit(&set->used, 1, memory_order_relaxed);
    persist(&set->used, sizeof set->used);
    set->magic = MAGIC;
    persist(&set->magic, sizeof set->magic);
  } else {
    recover_list();
  }
  driver_run(set->progress, fresh);
  return 0;
}
