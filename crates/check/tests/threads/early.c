// A thread that begins before main is not there when main runs.
//
// run: schedules=1 verdict=unknown says=before

#include <crashproof.h>
#include <pthread.h>

static void *nothing(void *unused) { return unused; }

__attribute__((constructor)) static void begin(void) {
  pthread_t thread;
  pthread_create(&thread, 0, nothing, 0);
}

int main(void) {
  long *pm = crashproof_root(sizeof *pm);
  if (crashproof_crashes()) return 0;
  *pm = 1;
  return 0;
}
