/*
 * One thread puts numbers into a ring in persistent memory, another takes them out. A slot is complete before
 * `tail` says so, and `head` moves only when the number has been taken. Whatever the crash leaves, the numbers
 * between head and tail are the right ones.
 *
 * All schedules are explored: crashproof check examples/c/two_thread_queue.c
 */
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>

#define SLOTS 8
#define NUMBERS 3

struct queue {
  _Atomic unsigned long head __attribute__((aligned(64)));
  _Atomic unsigned long tail __attribute__((aligned(64)));
  unsigned long slot[SLOTS] __attribute__((aligned(64)));
};

static struct queue *queue;

static void *produce(void *unused) {
  for (unsigned long number = 1; number <= NUMBERS; number++) {
    unsigned long tail = atomic_load(&queue->tail);
    while (tail - atomic_load(&queue->head) == SLOTS)
      sched_yield();
    /* The consumer may have been stopped before its flush, too. */
    crashproof_persist((void *)&queue->head, sizeof queue->head);
    queue->slot[tail % SLOTS] = number;
    crashproof_persist(&queue->slot[tail % SLOTS], sizeof queue->slot[0]);
    atomic_store(&queue->tail, tail + 1);
    crashproof_persist((void *)&queue->tail, sizeof queue->tail);
  }
  return unused;
}

static void *consume(void *unused) {
  for (unsigned long number = 1; number <= NUMBERS; number++) {
    unsigned long head = atomic_load(&queue->head);
    while (atomic_load(&queue->tail) == head)
      sched_yield();
    /* The producer may have been stopped before its flush: what we act on must be persistent first. */
    crashproof_persist((void *)&queue->tail, sizeof queue->tail);
    crashproof_assert(queue->slot[head % SLOTS] == number);
    atomic_store(&queue->head, head + 1);
    crashproof_persist((void *)&queue->head, sizeof queue->head);
  }
  return unused;
}

int main(void) {
  queue = crashproof_root(sizeof *queue);
  unsigned long head = atomic_load(&queue->head), tail = atomic_load(&queue->tail);
  crashproof_assert(head <= tail && tail - head <= SLOTS);
  for (unsigned long at = head; at < tail; at++)
    crashproof_assert(queue->slot[at % SLOTS] == at + 1);
  if (crashproof_crashes())
    return 0;
  pthread_t producer, consumer;
  pthread_create(&producer, 0, produce, 0);
  pthread_create(&consumer, 0, consume, 0);
  pthread_join(producer, 0);
  pthread_join(consumer, 0);
  return 0;
}
