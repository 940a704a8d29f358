// Recovery overwrites with an atomic store what may have been lost. A store reads nothing, however it is ordered: x86
// compiles a sequentially consistent one to `xchg`, whose old value nobody uses. An exchange whose result the program
// uses does read.
//
// run: -DSTORE=1
// none
// run: -DSTORE=2
// none
// run: -DSTORE=3
// none
// run: -DSTORE=4
// none
// run: -DSTORE=5 -O2
// none
// run: -DSTORE=6 -O2
// none
// run: -DSTORE=7 -mcx16
// none
// run: -DSTORE=8
// none
// run: -DSTORE=9
// none
// run: -DSTORE=1 -DTHREAD -pthread schedules=4
// none
// run: -DSTORE=8 -DTHREAD -pthread schedules=4
// none
// run: -DUSE=1
// error lost=X survived=Y window=X..Y primary new never
// run: -DUSE=1 -O2
// error lost=X survived=Y window=X..Y primary new never
// run: -DUSE=2
// error lost=X survived=Y window=X..Y primary new never
// run: -DUSE=3
// error lost=X survived=Y window=X..Y primary new never
// run: -DUSE=1 -DTHREAD -pthread schedules=4
// error lost=X survived=Y window=X..Y primary new never

#include <crashproof.h>
#include <stdatomic.h>
#include <stdint.h>
#ifdef THREAD
#include <pthread.h>
#endif

PERSISTENT union {
  _Atomic uint64_t at;
  uint64_t plain;
  __int128 wide;
} __attribute__((aligned(64))) x, y;

#ifdef STORE
static void overwrite(void) {
#if STORE == 1
  atomic_store(&x.at, 2);
#elif STORE == 2
  atomic_store_explicit(&x.at, 2, memory_order_release);
#elif STORE == 3
  atomic_store_explicit(&x.at, 2, memory_order_relaxed);
#elif STORE == 4
  __atomic_store_n(&x.plain, 2, __ATOMIC_SEQ_CST);
#elif STORE == 5
  atomic_exchange(&x.at, 2);
#elif STORE == 6
  atomic_exchange_explicit(&x.at, 2, memory_order_acq_rel);
#elif STORE == 7
  __atomic_store_n(&x.wide, 2, __ATOMIC_SEQ_CST);
#elif STORE == 8
  __asm__ volatile("movq %1, %0" : "=m"(x.plain) : "r"(2L));
#elif STORE == 9
  __asm__ volatile("movnti %1, %0" : "=m"(x.plain) : "r"(2L));
#endif
}
#endif

static void recover(void) {
#ifdef STORE
  overwrite();
#elif USE == 1
  volatile uint64_t old = atomic_exchange(&x.at, 2);
  (void)old;
#elif USE == 2
  volatile uint64_t old = atomic_fetch_add(&x.at, 2);
  (void)old;
#elif USE == 3
  uint64_t value = 2;
  __asm__ volatile("xchgq %0, %1" : "+r"(value), "+m"(x.plain));
  volatile uint64_t old = value;
  (void)old;
#endif
  volatile uint64_t survived = y.at;
  (void)survived;
}

#ifdef THREAD
static void *other(void *unused) {
  recover();
  return unused;
}
#endif

int main(void) {
  if (!crashproof_crashes()) {
    x.plain = 1; // X
    y.plain = 1; // Y
    crashproof_persist(&y, 8);
    return 0;
  }
#ifdef THREAD
  pthread_t thread;
  pthread_create(&thread, 0, other, 0);
  pthread_join(thread, 0);
#else
  recover();
#endif
  return 0;
}
