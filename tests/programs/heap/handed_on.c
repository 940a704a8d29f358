// One thread frees memory, another one gets it: the allocator orders the two, so that is no data race.
//@ flags check: --pm-heap --schedules 20
//@ lint: skip (lint has no --pm-heap)
//@ prove: skip (prove has no --pm-heap)
//@ check: clean, no warnings
#include <crashproof.h>
#include <pthread.h>
#include <stdlib.h>

struct task {
  long slot, value;
};

static void *run(void *given) {
  struct task *task = given;
  long *slots = crashproof_root(64);
  slots[task->slot] = task->value;
  crashproof_persist(&slots[task->slot], sizeof(long));
  free(task);
  return 0;
}

int main(void) {
  long *slots = crashproof_root(64);
  if (crashproof_crashes())
    return slots[1] > 2 || slots[2] > 2;
  pthread_t threads[2];
  for (long i = 0; i < 2; i++) {
    struct task *task = malloc(sizeof *task);
    task->slot = i + 1;
    task->value = 2;
    pthread_create(&threads[i], 0, run, task);
  }
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], 0);
  return 0;
}
