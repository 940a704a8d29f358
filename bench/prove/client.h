/*
 * What all clients share: threads, flags, and flushes that can be left out.
 *
 * A client is a file of a few lines: THREAD gives a thread's operations, RUN starts them. The same file is for
 * `crashproof check` (which runs main again after a crash) and `crashproof prove` (which takes recover).
 */
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

/* FLUSH(n, address) is the n-th flush of a data structure; -DNO_FLUSH=n leaves it out. */
#ifndef NO_FLUSH
#define NO_FLUSH 0
#endif
#define FLUSH(n, address)                                                                                    \
  do {                                                                                                       \
    if ((n) != NO_FLUSH)                                                                                     \
      crashproof_persist((const void *)(address), 1);                                                        \
  } while (0)

#define LINE __attribute__((aligned(64)))

/* w: a flag that says how far a thread came, in a line of its own. It is not flushed: if it survived, then
   everything that came before it must have. */
#define FLAGS 8
PERSISTENT struct LINE flag {
  atomic_long value;
} flags[FLAGS];
static void w(int number, long value) {
  atomic_store_explicit(&flags[number].value, value, memory_order_release);
}
static long flag(int number) { return flags[number].value; }

void recover(void);

#define THREAD(number, ...)                                                                                  \
  static void *thread_##number(void *unused) {                                                               \
    __VA_ARGS__;                                                                                             \
    return unused;                                                                                           \
  }

#define START(number)                                                                                        \
  pthread_t started_##number;                                                                                \
  pthread_create(&started_##number, 0, thread_##number, 0)

#define RUN_1                                                                                                \
  int main(void) {                                                                                           \
    if (crashproof_crashes())                                                                                \
      recover();                                                                                             \
    else                                                                                                     \
      thread_1(0);                                                                                           \
    return 0;                                                                                                \
  }
#define RUN(...)                                                                                             \
  int main(void) {                                                                                           \
    if (crashproof_crashes()) {                                                                              \
      recover();                                                                                             \
      return 0;                                                                                              \
    }                                                                                                        \
    __VA_ARGS__;                                                                                             \
    return 0;                                                                                                \
  }
#define RUN_2 RUN(START(1); START(2); JOIN(1); JOIN(2))
#define RUN_3 RUN(START(1); START(2); START(3); JOIN(1); JOIN(2); JOIN(3))
#define RUN_4 RUN(START(1); START(2); START(3); START(4); JOIN(1); JOIN(2); JOIN(3); JOIN(4))
#define JOIN(number) pthread_join(started_##number, 0)
