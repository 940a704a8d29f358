/*
 * The durable queue (Friedman et al., PPoPP 2018): a Michael-Scott queue whose links, marks of dequeued nodes and
 * results are flushed before anyone goes on.
 *
 *   e(k)     enqueue node k, with value 10 + k
 *   d(t)     dequeue as t; the result goes to returned[t]
 *   w(n, 1)  write a flag
 *
 * Flushes, in the order of the code:
 *   enqueue   1 the new node   2 the link, after setting it   3 the link, for another thread
 *   dequeue   4 the result cleared   5 the result EMPTY   6 the link, for another thread   7 the mark   8 the result
 *             9 the mark, for another thread   10 the result, for another thread
 */
#include "client.h"

/* How many nodes and dequeuing threads a client has; threads that dequeue are numbered from 1. */
#ifndef NODES
#define NODES 1
#endif
#ifndef TAKERS
#define TAKERS 1
#endif
enum { NOBODY = -1, NONE = 0, EMPTY = 1 };

PERSISTENT struct LINE node {
  long value;
  struct node *_Atomic next;
  atomic_long taken_by;
} nodes[NODES], sentinel = {0, 0, NOBODY};
PERSISTENT struct LINE end {
  struct node *_Atomic node;
} head = {&sentinel}, tail = {&sentinel};
PERSISTENT struct LINE result {
  atomic_long value;
} returned[TAKERS + 1];

#define load(place) atomic_load_explicit(place, memory_order_acquire)
#define store(place, value) atomic_store_explicit(place, value, memory_order_release)
#define cas(place, old, new)                                                                                 \
  ({                                                                                                         \
    __typeof__(old) expected_ = (old);                                                                       \
    atomic_compare_exchange_strong(place, &expected_, new);                                                  \
  })

static void e(int k) {
  struct node *node = &nodes[k];
  node->value = 10 + k;
  store(&node->next, (struct node *)0);
  store(&node->taken_by, (long)NOBODY);
  FLUSH(1, node);
  for (;;) {
    struct node *last = load(&tail.node);
    struct node *next = load(&last->next);
    if (last != load(&tail.node))
      continue;
    if (!next) {
      if (cas(&last->next, (struct node *)0, node)) {
        FLUSH(2, last);
        cas(&tail.node, last, node);
        return;
      }
    } else {
      FLUSH(3, last);
      cas(&tail.node, last, next);
    }
  }
}

static void d(int t) {
  store(&returned[t].value, (long)NONE);
  FLUSH(4, &returned[t]);
  for (;;) {
    struct node *first = load(&head.node);
    struct node *last = load(&tail.node);
    struct node *next = load(&first->next);
    if (first != load(&head.node))
      continue;
    if (first == last) {
      if (!next) {
        store(&returned[t].value, (long)EMPTY);
        FLUSH(5, &returned[t]);
        return;
      }
      FLUSH(6, last);
      cas(&tail.node, last, next);
      continue;
    }
    long value = next->value;
    if (cas(&next->taken_by, (long)NOBODY, (long)t)) {
      FLUSH(7, next);
      store(&returned[t].value, value);
      FLUSH(8, &returned[t]);
      cas(&head.node, first, next);
      return;
    }
    long owner = load(&next->taken_by);
    if (load(&head.node) == first) {
      FLUSH(9, next);
      store(&returned[owner].value, value);
      FLUSH(10, &returned[owner]);
      cas(&head.node, first, next);
    }
  }
}

/* What recovery knows after walking the list from its start. */
static int reachable[NODES];
static long last_of[TAKERS + 1];

static void walk(void) {
  int gap = 0;
  struct node *node = sentinel.next;
  for (int steps = 0; node; steps++) {
    crashproof_assert(steps < NODES);
    long k = node - nodes;
    crashproof_assert(node->value == 10 + k);
    reachable[k] = 1;
    long owner = node->taken_by;
    if (owner == NOBODY) {
      gap = 1;
    } else {
      /* First in, first out. */
      crashproof_assert(!gap);
      last_of[owner] = node->value;
    }
    node = node->next;
  }
  /* What was built on a node, or taken from it, was built on a link that is persistent. */
  for (int k = 0; k < NODES; k++)
    if (!reachable[k])
      crashproof_assert(!nodes[k].next && nodes[k].taken_by <= 0);
  /* A result belongs to the last node that its thread took. */
  for (int t = 1; t <= TAKERS; t++) {
    long value = returned[t].value;
    if (value > EMPTY)
      crashproof_assert(value == last_of[t]);
  }
}
/* e(k) came back. */
static void check_enqueued(int k) { crashproof_assert(reachable[k]); }
/* d(t) came back. */
static void check_dequeued(int t) { crashproof_assert(returned[t].value != NONE); }
