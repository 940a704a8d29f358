// A lock-free stack that four threads push on (Treiber's, made persistent). A node is persistent before it is
// linked; whether the link under it is does not matter, since it shares a line with the link above it.
//@ robust: refuted at LINK
//@ variant plain:
//@ flags check: --schedules 20
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant unflushed: -DUNFLUSHED
//@ flags check: --schedules 4
//@ check: recovery-fails at VALUE, survived LINK, window NEXT..LINK, primary
//@ lint: unflushed-write at VALUE
//@ lint: unflushed-write at NEXT
//@ prove: refuted at claim-violated

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4

struct node {
  long value;
  struct node *next;
};
struct stack {
  _Atomic(struct node *) head;
};
static struct stack *stack;

static void *push(void *number) {
  struct node *node = crashproof_alloc(sizeof *node);
  node->value = 100 + (long)number; // MARK: VALUE
  struct node *head = atomic_load(&stack->head);
  do {
    node->next = head; // MARK: NEXT
#ifndef UNFLUSHED
    crashproof_persist(node, sizeof *node);
#endif
  } while (!atomic_compare_exchange_strong(&stack->head, &head, node)); // MARK: LINK
  crashproof_persist((void *)&stack->head, sizeof stack->head);
  return 0;
}

int main(void) {
  stack = crashproof_root(sizeof *stack);
  if (crashproof_crashes()) {
    for (struct node *node = atomic_load(&stack->head); node; node = node->next)
      crashproof_assert(node->value >= 100); // MARK: claim-violated
    return 0;
  }
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++)
    pthread_create(&threads[i], 0, push, (void *)i);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], 0);
  return 0;
}
