// A durable lock-free queue (Friedman et al.): a node is flushed before it is linked, a link before anybody builds on it, and a
// dequeue is recorded in the node that it takes. Two threads enqueue and dequeue; recovery walks from the sentinel.
//@ args: {dir}/pool
//@ cflags: -O1
//@ flags check: --schedules 1
//@ variant correct:
//@ variant node-not-flushed: -DBUG_NODE_NOT_FLUSHED
//@ bug: never-flushed at value
//@ variant link-not-flushed: -DBUG_LINK_NOT_FLUSHED
//@ bug: never-flushed at link
//@ variant taken-not-flushed: -DBUG_TAKEN_NOT_FLUSHED
//@ bug: never-flushed at taken
//@ tier: slow
//@ variant helper-does-not-flush: -DBUG_HELPER_DOES_NOT_FLUSH
//@ bug: flushed-too-late|wrong-order at link
//@ flags check: --schedules 16
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#include <pthread.h>
#include <stdatomic.h>

#include "pool.h"

#ifdef BUG_ALL
#define BUG_NODE_NOT_FLUSHED
#define BUG_LINK_NOT_FLUSHED
#define BUG_TAKEN_NOT_FLUSHED
#endif

#define NODES 16
#define ROUNDS 2

struct node {
  _Alignas(LINE) uint64_t value;
  _Atomic uint64_t next;  /* number, 0: none */
  _Atomic uint64_t taken; /* by which thread, counted from 1; 0: not yet */
};

struct queue {
  _Alignas(LINE) uint64_t magic;
  _Alignas(LINE) _Atomic uint64_t head;
  _Alignas(LINE) _Atomic uint64_t tail;
  struct {
    _Alignas(LINE) uint64_t enqueued, dequeued;
  } told[2]; /* what the callers of each thread may rely on */
  struct node nodes[NODES];
};

#define MAGIC 0x90e0eull

static struct queue *queue;

static struct node *node(uint64_t number) { return &queue->nodes[number]; }

/* Head and tail are found again by recovery: it does not matter whether they survive. */
static void advance(_Atomic uint64_t *end, uint64_t from, uint64_t to) {
  crashproof_tolerate_begin();
  atomic_compare_exchange_strong(end, &from, to);
  crashproof_tolerate_end();
}

static void enqueue(uint64_t number, uint64_t value) {
  struct node *fresh = node(number);
  fresh->value = value; // MARK: value
  atomic_store_explicit(&fresh->next, 0, memory_order_relaxed);  // MARK: value
  atomic_store_explicit(&fresh->taken, 0, memory_order_relaxed); // MARK: value
#ifndef BUG_NODE_NOT_FLUSHED
  persist(fresh, sizeof *fresh);
#endif
  for (;;) {
    uint64_t last = atomic_load(&queue->tail);
    uint64_t next = atomic_load(&node(last)->next);
    if (last != atomic_load(&queue->tail))
      continue;
    if (next) {
#ifndef BUG_HELPER_DOES_NOT_FLUSH
      persist(&node(last)->next, sizeof(uint64_t));
#endif
      advance(&queue->tail, last, next);
      continue;
    }
    if (atomic_compare_exchange_strong(&node(last)->next, &next, number)) { // MARK: link
#ifndef BUG_LINK_NOT_FLUSHED
      persist(&node(last)->next, sizeof(uint64_t));
#endif
      advance(&queue->tail, last, number);
      return;
    }
  }
}

static uint64_t dequeue(uint64_t thread) {
  for (;;) {
    uint64_t first = atomic_load(&queue->head);
    uint64_t last = atomic_load(&queue->tail);
    uint64_t next = atomic_load(&node(first)->next);
    if (first != atomic_load(&queue->head))
      continue;
    if (!next)
      return 0;
    if (first == last) {
      persist(&node(last)->next, sizeof(uint64_t));
      advance(&queue->tail, last, next);
      continue;
    }
    uint64_t value = node(next)->value;
    uint64_t free = 0;
    if (atomic_compare_exchange_strong(&node(next)->taken, &free, thread)) { // MARK: taken
#ifndef BUG_TAKEN_NOT_FLUSHED
      persist(&node(next)->taken, sizeof(uint64_t));
#endif
      advance(&queue->head, first, next);
      return value;
    }
    persist(&node(next)->taken, sizeof(uint64_t));
    advance(&queue->head, first, next);
  }
}

static void *work(void *argument) {
  uint64_t thread = (uint64_t)(uintptr_t)argument;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    enqueue(1 + thread * ROUNDS + round, 100 * (thread + 1) + round);
    queue->told[thread].enqueued = round + 1;
    persist(&queue->told[thread].enqueued, sizeof(uint64_t));
    if (dequeue(thread + 1)) {
      queue->told[thread].dequeued++;
      persist(&queue->told[thread].dequeued, sizeof(uint64_t));
    }
  }
  return NULL;
}

/* Everything that a caller was told is in the queue is reachable, complete and in the order of its thread. */
static void verify(void) {
  uint64_t seen[2] = {0, 0}, open = 0, taken = 0;
  for (uint64_t number = atomic_load(&node(0)->next); number; number = atomic_load(&node(number)->next)) {
    uint64_t value = node(number)->value;
    uint64_t thread = value / 100 - 1;
    VERIFY(thread < 2 && value % 100 == seen[thread]);
    seen[thread]++;
    if (!atomic_load(&node(number)->taken))
      open = 1;
    else
      VERIFY(!open);
    taken += !open;
  }
  VERIFY(seen[0] >= queue->told[0].enqueued && seen[1] >= queue->told[1].enqueued);
  VERIFY(taken >= queue->told[0].dequeued + queue->told[1].dequeued);
}

int main(int argc, char **argv) {
  queue = pool_map(argc > 1 ? argv[1] : "/mnt/pmem/queue", sizeof *queue);
  if (queue->magic == MAGIC) {
    verify();
    return 0;
  }
  memset(queue, 0, sizeof *queue);
  persist(queue, sizeof *queue);
  queue->magic = MAGIC;
  persist(&queue->magic, sizeof queue->magic);
  pthread_t threads[2];
  for (uintptr_t t = 0; t < 2; t++)
    pthread_create(&threads[t], NULL, work, (void *)t);
  for (int t = 0; t < 2; t++)
    pthread_join(threads[t], NULL);
  verify();
  return 0;
}
