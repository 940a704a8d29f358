// Message passing: stores of one thread become visible in order, so whoever sees the flag sees the data.
// Non-temporal stores are not ordered with others, which shows. The flag may as well be in volatile memory.
//@ variant plain:
//@ flags check: --schedules 48
//@ check: clean
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
//@ variant nontemporal: -DNONTEMPORAL
//@ flags check: --schedules 200
//@ check: fails-under-schedule at fails-under-schedule
//@ lint: missing-barrier at fails-under-schedule
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim-violated
//@ variant volatile: -DVOLATILE
//@ flags check: --schedules 200
//@ check: clean
//@ lint: unflushed-write at unflushed-write-2
//@ prove: proved
//@ variant volatile-nontemporal: -DVOLATILE -DNONTEMPORAL
//@ flags check: --schedules 200
//@ check: fails-under-schedule at fails-under-schedule
//@ lint: missing-barrier at fails-under-schedule
//@ prove: refuted at claim-violated

#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

struct message {
  long data;
  char apart[64 - sizeof(long)];
  _Atomic long flag;
};
static struct message *message;
#ifdef VOLATILE
static _Atomic long flag;
#define FLAG &flag
#else
#define FLAG &message->flag
#endif

static void *send(void *unused) {
#ifdef NONTEMPORAL
  __builtin_nontemporal_store(42, &message->data); // MARK: fails-under-schedule
#else
  message->data = 42; // MARK: unflushed-write-2
#endif
  atomic_store_explicit(FLAG, 1, memory_order_release); // MARK: unflushed-write
  return unused;
}

static void *receive(void *unused) {
  while (!atomic_load_explicit(FLAG, memory_order_acquire)) {}
  crashproof_assert(message->data == 42); // MARK: claim-violated
  return unused;
}

int main(void) {
  message = crashproof_root(sizeof *message);
  if (crashproof_crashes()) return 0;
  pthread_t a, b;
  pthread_create(&a, 0, receive, 0);
  pthread_create(&b, 0, send, 0);
  pthread_join(a, 0);
  pthread_join(b, 0);
  return 0;
}
