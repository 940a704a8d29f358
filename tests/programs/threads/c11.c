// Threads of C11: a producer and a consumer, and all that goes with them.
//@ prove: unknown (what is called for a thread's own values when it ends is not modeled)
//@ variant fixed: -DFIXED
//@ flags check: --schedules 8
//@ check: clean
//@ lint: clean, no warnings
//@ variant plain:
//@ flags check: --schedules 8
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails

#include <crashproof.h>
#include <threads.h>
#include <time.h>

#define ITEMS 3

struct item {
  long value;
  char apart[56];
  long valid;
  char apart_too[56];
};
static struct item *items;
static mtx_t lock, nested;
static cnd_t changed;
static once_flag flag = ONCE_FLAG_INIT;
static tss_t slot;
static int produced, once_ran, destroyed;

static void run_once(void) { once_ran++; }
static void destroy(void *value) { destroyed += *(int *)value; }

static int produce(void *unused) {
  (void)unused;
  static int one = 1;
  tss_set(slot, &one);
  call_once(&flag, run_once);
  for (int i = 0; i < ITEMS; i++) {
    items[i].value = i + 1; // MARK: recovery-fails
#ifdef FIXED
    crashproof_persist(&items[i].value, sizeof(long));
#endif
    mtx_lock(&lock);
    produced++;
    cnd_broadcast(&changed);
    mtx_unlock(&lock);
    thrd_yield();
  }
  return 11;
}

static int consume(void *unused) {
  (void)unused;
  call_once(&flag, run_once);
  for (int i = 0; i < ITEMS; i++) {
    mtx_lock(&lock);
    while (produced <= i) cnd_wait(&changed, &lock);
    mtx_unlock(&lock);
    items[i].valid = 1;
    crashproof_persist(&items[i].valid, sizeof(long));
  }
  thrd_exit(12);
}

int main(void) {
  items = crashproof_root(ITEMS * sizeof *items);
  if (crashproof_crashes()) {
    for (int i = 0; i < ITEMS; i++)
      if (items[i].valid) crashproof_assert(items[i].value == i + 1);
    return 0;
  }
  crashproof_assert(mtx_init(&lock, mtx_timed) == thrd_success);
  crashproof_assert(mtx_init(&nested, mtx_plain | mtx_recursive) == thrd_success);
  cnd_init(&changed);
  tss_create(&slot, destroy);
  mtx_lock(&nested);
  crashproof_assert(mtx_trylock(&nested) == thrd_success);
  thrd_t producer, consumer;
  crashproof_assert(thrd_create(&consumer, consume, 0) == thrd_success);
  crashproof_assert(thrd_create(&producer, produce, 0) == thrd_success);
  int first, second;
  thrd_join(producer, &first);
  thrd_join(consumer, &second);
  crashproof_assert(first == 11 && second == 12 && once_ran == 1 && destroyed == 1);
  mtx_lock(&lock);
  crashproof_assert(mtx_trylock(&lock) == thrd_busy);
  struct timespec soon;
  timespec_get(&soon, TIME_UTC);
  soon.tv_sec++;
  crashproof_assert(cnd_timedwait(&changed, &lock, &soon) == thrd_timedout);
  mtx_unlock(&lock);
  mtx_destroy(&lock);
  return 0;
}
