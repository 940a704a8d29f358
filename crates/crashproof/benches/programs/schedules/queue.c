// Two threads, each with ROUNDS rounds of enqueue and dequeue on a durable queue: a ring under a mutex, each operation made
// durable before the lock is given back.
#include <crashproof.h>
#include <pthread.h>
#ifndef ROUNDS
#define ROUNDS 8
#endif
#define SLOTS 64

struct queue {
  _Alignas(64) long head;
  _Alignas(64) long tail;
  _Alignas(64) long slot[SLOTS];
};

PERSISTENT struct queue queue;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void enqueue(long value) {
  queue.slot[queue.tail % SLOTS] = value;
  crashproof_persist(&queue.slot[queue.tail % SLOTS], sizeof(long));
  queue.tail++;
  crashproof_persist(&queue.tail, sizeof(long));
}

static long dequeue(void) {
  if (queue.head == queue.tail)
    return 0;
  long value = queue.slot[queue.head % SLOTS];
  queue.head++;
  crashproof_persist(&queue.head, sizeof(long));
  return value;
}

static void *run(void *number) {
  for (long round = 0; round < ROUNDS; round++) {
    pthread_mutex_lock(&lock);
    enqueue(1 + (long)number * ROUNDS + round);
    crashproof_assert(dequeue() != 0);
    pthread_mutex_unlock(&lock);
  }
  return 0;
}

int main(void) {
  if (crashproof_crashes()) {
    crashproof_assert(queue.head <= queue.tail && queue.tail <= queue.head + 1);
    for (long at = queue.head; at < queue.tail; at++)
      crashproof_assert(queue.slot[at % SLOTS] != 0);
    return 0;
  }
  pthread_t threads[2];
  for (long i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, run, (void *)i);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
  return 0;
}
