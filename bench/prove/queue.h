/*
 * The durable queue (Friedman et al., PPoPP 2018): a Michael-Scott queue whose links, marks of dequeued nodes and
 * results are flushed before anyone goes on.
 *
 *   e(k)     enqueue node k, with value 10 + k
 *   d(t, n)  dequeue as t, for the n-th time, counting from 0
 *   w(n, 1)  write a flag
 *
 * Every dequeue has a cell for its result, and returned[t] points to the cell of t's last one. (With one cell for
 * each thread a helper that was late would write the result of the dequeue before: crashproof finds that in
 * ee+ddw+d.)
 *
 * Flushes, in the order of the code:
 *   enqueue   1 the new node   2 the link, after setting it   3 the link, for another thread
 *   dequeue   4 the cell   5 the pointer to it   6 the result EMPTY   7 the link, for another thread   8 the mark
 *             9 the result   10 the mark, for another thread   11 the result, for another thread
 *
 * Two of them are needed by no claim. Without 4 the cell is NONE all the same, as it was from the start. Without 11
 * the result of a thread that was helped may be lost, but that thread has not come back: before it does, it flushes
 * the result itself (9).
 */
#include "client.h"

/* How many nodes a client has, how many threads that dequeue (numbered from 1), and how often one does. */
#ifndef NODES
#define NODES 1
#endif
#ifndef TAKERS
#define TAKERS 1
#endif
#ifndef TAKES
#define TAKES 1
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
} results[TAKERS + 1][TAKES];
PERSISTENT struct LINE returned {
  struct result *_Atomic result;
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
    int mine = !next;
    if (mine) {
      if (!cas(&last->next, (struct node *)0, node))
        continue;
      next = node;
    }
    FLUSH(mine ? 2 : 3, last);
    cas(&tail.node, last, next);
    if (mine)
      return;
  }
}

static void d(int t, int n) {
  struct result *result = &results[t][n];
  store(&result->value, (long)NONE);
  FLUSH(4, result);
  store(&returned[t].result, result);
  FLUSH(5, &returned[t]);
  for (;;) {
    struct node *first = load(&head.node);
    struct node *last = load(&tail.node);
    struct node *next = load(&first->next);
    if (first != load(&head.node))
      continue;
    if (first == last) {
      if (!next) {
        store(&result->value, (long)EMPTY);
        FLUSH(6, result);
        return;
      }
      FLUSH(7, last);
      cas(&tail.node, last, next);
      continue;
    }
    long value = next->value;
    int mine = cas(&next->taken_by, (long)NOBODY, (long)t);
    struct result *whose = result;
    if (!mine) {
      whose = load(&returned[load(&next->taken_by)].result);
      if (load(&head.node) != first)
        continue;
    }
    FLUSH(mine ? 8 : 10, next);
    store(&whose->value, value);
    FLUSH(mine ? 9 : 11, whose);
    cas(&head.node, first, next);
    if (mine)
      return;
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
    struct result *result = returned[t].result;
    if (result && result->value > EMPTY)
      crashproof_assert(result->value == last_of[t]);
  }
}
/* e(k) came back. */
static void check_enqueued(int k) { crashproof_assert(reachable[k]); }
/* d(t, n) came back. */
static void check_dequeued(int t, int n) {
  crashproof_assert(returned[t].result == &results[t][n] && results[t][n].value != NONE);
}
