// Every kind of locked access to persistent memory keeps its atomicity while threads switch around it.
//@ prove: unknown (inline assembly that reads or writes memory, `lock; xaddq $0, $1`, is not modeled)
//@ variant mcx16: -mcx16
//@ flags check: --schedules 16
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ lint: unflushed-write at unflushed-write-4
//@ lint: unflushed-write at unflushed-write-5
//@ lint: unflushed-write at unflushed-write-6
//@ lint: unflushed-write at unflushed-write-7

#include <crashproof.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define ROUNDS 5
#define WORKERS 3

struct shared {
  uint64_t added, swapped, by_assembly, compared;
  _Alignas(16) unsigned __int128 wide;
  uint64_t lock, guarded[2];
  uint8_t small;
};
static struct shared *pm;

static void *work(void *unused) {
  for (int i = 0; i < ROUNDS; i++) {
    __atomic_fetch_add(&pm->added, 1, __ATOMIC_SEQ_CST); // MARK: unflushed-write
    __atomic_fetch_add(&pm->small, 1, __ATOMIC_RELAXED); // MARK: unflushed-write-2
    uint64_t one = 1;
    __asm__ volatile("lock; xaddq %0, %1" : "+r"(one), "+m"(pm->by_assembly) : : "memory"); // MARK: unflushed-write-3
    uint64_t old = __atomic_load_n(&pm->compared, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&pm->compared, &old, old + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {} // MARK: unflushed-write-4
    unsigned __int128 before = pm->wide;
    for (;;) {
      unsigned __int128 after = before + (((unsigned __int128)1 << 64) | 1);
      unsigned __int128 seen = __sync_val_compare_and_swap(&pm->wide, before, after); // MARK: unflushed-write-5
      if (seen == before) break;
      before = seen;
    }
    while (__atomic_exchange_n(&pm->lock, 1, __ATOMIC_ACQUIRE)) {}
    uint64_t pair[2];
    memcpy(pair, pm->guarded, sizeof pair);
    crashproof_assert(pair[0] == pair[1]);
    pair[0]++, pair[1]++;
    memcpy(pm->guarded, pair, sizeof pair); // MARK: unflushed-write-6
    __atomic_store_n(&pm->lock, 0, __ATOMIC_RELEASE); // MARK: unflushed-write-7
  }
  return unused;
}

int main(void) {
  pm = crashproof_root(sizeof *pm);
  if (crashproof_crashes()) return 0;
  pthread_t threads[WORKERS];
  for (int i = 0; i < WORKERS; i++) pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], 0);
  uint64_t expected = ROUNDS * WORKERS;
  crashproof_assert(pm->added == expected && pm->by_assembly == expected && pm->compared == expected);
  crashproof_assert((uint64_t)pm->wide == expected && (uint64_t)(pm->wide >> 64) == expected);
  crashproof_assert(pm->small == expected && pm->guarded[0] == expected);
  return 0;
}
