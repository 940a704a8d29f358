// The entry of Dekker's lock, with volatile variables: without a fence both threads may miss the other's store.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules of real runs)
//@ variant fenced: -DFENCED
//@ flags check: --schedules all
//@ check: clean
//@ variant plain:
//@ flags check: --schedules all
//@ check: fails-under-schedule

#include <crashproof.h>
#include <pthread.h>

static volatile int wants[2];
static int saw[2];
PERSISTENT long result;

static void *run(void *argument) {
  int me = argument != 0;
  wants[me] = 1;
#ifdef FENCED
  __sync_synchronize();
#endif
  saw[me] = wants[!me];
  return 0;
}

int main(void) {
  if (crashproof_crashes())
    return result < 0;
  pthread_t threads[2];
  pthread_create(&threads[0], 0, run, 0);
  pthread_create(&threads[1], 0, run, &result);
  pthread_join(threads[0], 0);
  pthread_join(threads[1], 0);
  crashproof_assert(saw[0] || saw[1]);
  result = 1;
  crashproof_persist(&result, sizeof result);
  return 0;
}
