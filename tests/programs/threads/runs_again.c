// Recovery is the program run again, threads and all: wherever it is crashed, each of its schedules is tried from what is left.
//@ lint: skip (order between threads)
//@ prove: skip (threads of recovery that share what one of them writes are not modeled)
//@ variant correct:
//@ check: clean
//@ variant unflushed: -DUNFLUSHED
//@ check: recovery-fails at entry
#include <crashproof.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct journal {
  _Alignas(64) unsigned long count;
  struct {
    _Alignas(64) unsigned long author;
  } entries[2];
};
PERSISTENT struct journal journal;
static atomic_uint next, serving;

static void *add(void *argument) {
  unsigned ticket = atomic_fetch_add(&next, 1);
  while (atomic_load_explicit(&serving, memory_order_acquire) != ticket) sched_yield();
  unsigned long count = journal.count;
  if (count < 2) {
    journal.entries[count].author = (unsigned long)argument; // MARK: entry
#ifdef UNFLUSHED
    if (ticket == 0)
#endif
      crashproof_persist(&journal.entries[count], sizeof journal.entries[count]);
    journal.count = count + 1;
    crashproof_persist(&journal.count, sizeof journal.count);
  }
  atomic_store_explicit(&serving, ticket + 1, memory_order_release);
  return NULL;
}

int main(void) {
  for (unsigned long i = 0; i < journal.count; i++)
    crashproof_assert(journal.entries[i].author >= 1 && journal.entries[i].author <= 3);
  pthread_t threads[3];
  for (unsigned long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, add, (void *)(i + 1));
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  crashproof_assert(journal.count == 2);
  return 0;
}
