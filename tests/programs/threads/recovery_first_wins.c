// Recovery has threads, and only the one that comes first looks at the record: under the first schedule that is one that reads
// nothing. Which contents a crash left is told apart when another schedule reads them.
//@ prove: skip (threads of recovery that share what one of them writes are not modeled)
//@ variant late: -DLATE
//@ check: recovery-fails at record
//@ lint: unflushed-write at record
//@ variant flushed:
//@ check: clean
//@ lint: clean, no warnings
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>

struct record {
  _Alignas(64) long length;
  _Alignas(64) long first;
  _Alignas(64) long second;
};
PERSISTENT struct record record;
static atomic_int winner;

static void *looks_not(void *unused) {
  int nobody = 0;
  atomic_compare_exchange_strong(&winner, &nobody, 1);
  return unused;
}

static void *looks(void *unused) {
  int nobody = 0;
  if (!atomic_compare_exchange_strong(&winner, &nobody, 2)) return unused;
  if (record.length == 0) return unused;
  crashproof_assert(record.first == 41);
  crashproof_assert(record.second == 42);
  return unused;
}

static void recover(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, looks_not, NULL);
  pthread_create(&threads[1], NULL, looks, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  if (crashproof_crashes() > 0) {
    recover();
    return 0;
  }
  record.first = 41;
  crashproof_persist(&record.first, sizeof record.first);
  record.second = 42; // MARK: record
#ifndef LATE
  crashproof_persist(&record.second, sizeof record.second);
#endif
  record.length = 2;
  crashproof_persist(&record.length, sizeof record.length);
  return 0;
}
