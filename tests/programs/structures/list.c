// A lock-free list with two threads: nodes are complete before they are linked, and a node is deleted by marking
// its next pointer, which is persistent before anybody acts on it.
//@ flags check: --schedules 6
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: split-update at split-update
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at recovery-fails-2
//@ lint: unflushed-write at recovery-fails-2
//@ lint: unflushed-write at recovery-fails
//@ lint: split-update at split-update
//@ prove: refuted at claim-violated
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails at recovery-fails-3
//@ lint: split-update at split-update
//@ lint: unflushed-write at recovery-fails-3
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim-violated

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

struct node {
  long key;
  struct node *below;
};
struct list {
  _Atomic(struct node *) head;
  _Atomic long pushed __attribute__((aligned(64)));
};
static struct list *list;

static void *push(void *argument) {
  struct node *node = crashproof_alloc(sizeof *node);
  node->key = (long)argument; // MARK: recovery-fails-2
  struct node *head = atomic_load(&list->head);
  node->below = head; // MARK: recovery-fails
#if BUG != 1
  crashproof_persist(node, sizeof *node);
#endif
  while (!atomic_compare_exchange_strong(&list->head, &head, node)) {
    node->below = head; // MARK: split-update-2
    crashproof_persist(node, sizeof *node);
  }
  crashproof_persist((void *)&list->head, sizeof list->head);
  long before = atomic_fetch_add(&list->pushed, 1); // MARK: split-update
  crashproof_persist((void *)&list->pushed, sizeof list->pushed);
  return (void *)before;
}

int main(void) {
  list = crashproof_root(sizeof *list);
  long found = 0;
  for (struct node *node = atomic_load(&list->head); node; node = node->below, found++)
    crashproof_assert(node->key > 0); // MARK: claim-violated
  crashproof_assert(found >= atomic_load(&list->pushed));
  if (crashproof_crashes())
    return 0;
#if BUG == 2
  struct node *first = crashproof_alloc(sizeof *first);
  first->key = 5; // MARK: recovery-fails-3
  atomic_store(&list->head, first); // MARK: unflushed-write
#endif
  pthread_t threads[2];
  for (long i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, push, (void *)(i + 1));
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
  return 0;
}
