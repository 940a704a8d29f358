// Strands of two threads on one counter, under a lock. Letting go of it is a locked instruction, so what the
// strand flushed is persistent then, also without the fence of -DFENCED. Compiled with -DUNLOCKED nothing
// orders the two.
//@ flags check: --model strand
//@ flags lint: --model strand
//@ prove: unknown (calls `crashproof_strand_begin`, which is not defined here)
//@ variant fenced: -DFENCED
//@ flags check: --schedules 8
//@ check: clean
//@ lint: clean, no warnings
//@ variant plain:
//@ flags check: --schedules 8
//@ check: clean
//@ lint: missing-barrier at missing-barrier
//@ variant unlocked: -DUNLOCKED
//@ flags check: --schedules 8
//@ check: dependent-strands at COUNT
//@ lint: missing-barrier at missing-barrier
//@ variant fenced-once: -DFENCED
//@ check: clean
//@ lint: clean, no warnings
//@ variant plain-once:
//@ check: clean
//@ lint: missing-barrier at missing-barrier
//@ variant unlocked-once: -DUNLOCKED
//@ check: dependent-strands at COUNT
//@ check: dependent-strands at COUNT
//@ lint: missing-barrier at missing-barrier
#include <crashproof.h>
#include <pthread.h>
#include <stddef.h>

static PERSISTENT long counter;
#ifndef UNLOCKED
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#endif

static void *count(void *unused) {
#ifndef UNLOCKED
  pthread_mutex_lock(&lock);
#endif
  crashproof_strand_begin();
  counter = counter + 1; // MARK: COUNT
  crashproof_flush(&counter, sizeof counter); // MARK: missing-barrier
  crashproof_strand_end();
#ifdef FENCED
  crashproof_drain();
#endif
#ifndef UNLOCKED
  pthread_mutex_unlock(&lock);
#endif
  return unused;
}

int main(void) {
  pthread_t other;
  pthread_create(&other, NULL, count, NULL);
  count(NULL);
  pthread_join(other, NULL);
  return 0;
}
