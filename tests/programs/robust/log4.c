// A lock-free log: four threads claim places by adding to `tail` and fill them; each also notes how far it has
// seen the log grow. A claim must persist before what is written because of it: the entry, and the note of a
// thread that saw it, which cannot rely on the claimer to have flushed it.
//@ prove: skip (too large to prove in a test)
//@ variant plain:
//@ flags check: --schedules 30
//@ check: clean
//@ lint: split-update at ENTRY
//@ lint: redundant-flush at redundant-flush
//@ robust: skip (too large to prove in a test)
//@ variant trusting: -DTRUSTING
//@ flags check: --schedules 30
//@ check: missing-flush at CLAIM, survived SEEN, window LOOK..SEEN, reader
//@ lint: split-update at ENTRY
//@ robust: refuted at CLAIM
//@ variant unflushed: -DUNFLUSHED
//@ flags check: --schedules 4
//@ check: missing-flush at CLAIM, survived ENTRY, window CLAIM..ENTRY, primary
//@ lint: split-update at SEEN
//@ robust: refuted at CLAIM

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4
#define EACH 2

struct line {
  _Atomic long at;
} __attribute__((aligned(64)));
struct log {
  struct line tail, seen[THREADS], entry[THREADS * EACH];
};
static struct log *log_;

static void *append(void *number) {
  for (int i = 0; i < EACH; i++) {
    long place = atomic_fetch_add(&log_->tail.at, 1); // MARK: CLAIM
#ifndef UNFLUSHED
    crashproof_persist(&log_->tail, sizeof log_->tail); // MARK: PERSIST
#endif
    atomic_store_explicit(&log_->entry[place].at, place + 1, memory_order_release); // MARK: ENTRY
    crashproof_persist(&log_->entry[place], sizeof log_->entry[place]);
  }
  long seen = atomic_load(&log_->tail.at); // MARK: LOOK
#ifndef TRUSTING
  crashproof_persist(&log_->tail, sizeof log_->tail); // MARK: redundant-flush
#endif
  atomic_store_explicit(&log_->seen[(long)number].at, seen, memory_order_release); // MARK: SEEN
  crashproof_persist(&log_->seen[(long)number], sizeof log_->seen[0]);
  return 0;
}

int main(void) {
  log_ = crashproof_root(sizeof *log_);
  if (crashproof_crashes()) {
    volatile long sum = atomic_load(&log_->tail.at);
    for (int i = 0; i < THREADS; i++)
      sum += atomic_load(&log_->seen[i].at);
    for (int i = 0; i < THREADS * EACH; i++)
      sum += atomic_load(&log_->entry[i].at);
    return 0;
  }
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++)
    pthread_create(&threads[i], 0, append, (void *)i);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], 0);
  return 0;
}
