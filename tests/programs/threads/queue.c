// A queue between two threads; an element counts once its commit flag says so.
//@ variant fixed: -DFIXED
//@ flags check: --schedules 6
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant plain:
//@ flags check: --schedules 6
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails
//@ prove: refuted at claim-violated

#include <crashproof.h>
#include <pthread.h>

#define ELEMENTS 4

struct slot {
  long value;
  char apart[64 - sizeof(long)];
  long committed;
  char apart_too[64 - sizeof(long)];
};

static struct slot *slots;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int ready;

static void *produce(void *unused) {
  for (int i = 0; i < ELEMENTS; i++) {
    slots[i].value = 100 + i; // MARK: recovery-fails
#ifdef FIXED
    crashproof_persist(&slots[i].value, sizeof(long));
#endif
    pthread_mutex_lock(&lock);
    ready = i + 1;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

static void *commit(void *unused) {
  for (int i = 0; i < ELEMENTS; i++) {
    pthread_mutex_lock(&lock);
    while (ready <= i) pthread_cond_wait(&more, &lock);
    pthread_mutex_unlock(&lock);
    slots[i].committed = 1;
    crashproof_persist(&slots[i].committed, sizeof(long));
  }
  return unused;
}

int main(void) {
  slots = crashproof_root(ELEMENTS * sizeof *slots);
  if (crashproof_crashes()) {
    for (int i = 0; i < ELEMENTS; i++)
      if (slots[i].committed) crashproof_assert(slots[i].value == 100 + i); // MARK: claim-violated
    return 0;
  }
  pthread_t producer, committer;
  pthread_create(&producer, 0, produce, 0);
  pthread_create(&committer, 0, commit, 0);
  pthread_join(producer, 0);
  pthread_join(committer, 0);
  return 0;
}
