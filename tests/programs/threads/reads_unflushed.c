// PSan, Figure 7: a thread reads x before the other has flushed it, and makes y, which depends on it,
// persistent. Whether it comes in between is up to the schedule: never in the first one.
//@ variant plain:
//@ check: recovery-fails at recovery-fails
//@ lint: clean, no warnings
//@ prove: refuted at claim-violated
//@ variant plain-2:
//@ flags check: --schedules 24
//@ check: recovery-fails at recovery-fails
//@ lint: clean, no warnings
//@ prove: refuted at claim-violated
//@ variant fixed: -DFIXED
//@ flags check: --schedules 24
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

struct shared {
  _Atomic long x;
  char apart[64 - sizeof(long)];
  long y;
};
static struct shared *shared;

static void *write_x(void *unused) {
  atomic_store_explicit(&shared->x, 1, memory_order_release); // MARK: recovery-fails
  crashproof_persist((void *)&shared->x, sizeof(long));
  return unused;
}

static void *write_y(void *unused) {
  long seen = atomic_load_explicit(&shared->x, memory_order_acquire);
#ifdef FIXED
  crashproof_persist((void *)&shared->x, sizeof(long)); // MARK: flush-unmodified
#endif
  shared->y = seen;
  crashproof_persist(&shared->y, sizeof(long));
  return unused;
}

int main(void) {
  shared = crashproof_root(sizeof *shared);
  if (crashproof_crashes()) {
    crashproof_assert(shared->x >= shared->y); // MARK: claim-violated
    return 0;
  }
  pthread_t writer, reader;
  pthread_create(&writer, 0, write_x, 0);
  pthread_create(&reader, 0, write_y, 0);
  pthread_join(writer, 0);
  pthread_join(reader, 0);
  return 0;
}
