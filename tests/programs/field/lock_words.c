// Lock words beside the data they protect: every start resets them, and nobody flushes them.
//@ args: {dir}/bank
//@ prove: skip (written for lint)
//@ cflags: -pthread
//@ flags check: --schedules 4
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant balance: -DBUG=1
//@ check: recovery-fails at balance
//@ lint: unflushed-write at balance
//@ lint: unflushed-write at taken
//@ lint: unflushed-write at released
//@ lint: unflushed-write at reset
//@ variant seq: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at seq
//@ lint: unflushed-write at taken
//@ lint: unflushed-write at released
//@ lint: unflushed-write at reset
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
struct account { _Atomic uint32_t lock; uint32_t id; uint64_t pad[7]; uint64_t balance; uint64_t pad2[7]; uint64_t seq; uint64_t pad3[7]; };
struct bank { struct account acc[2]; };
static struct bank *bank;
static void lock(struct account *a) {
  uint32_t expected = 0;
  while (!atomic_compare_exchange_weak(&a->lock, &expected, 1)) expected = 0; // MARK: taken
}
static void unlock(struct account *a) { atomic_store_explicit(&a->lock, 0, memory_order_release); } // MARK: released
static void deposit(struct account *a, uint64_t n) {
  lock(a);
  a->balance += n; // MARK: balance
#if BUG != 1
  _mm_clwb(&a->balance);
  _mm_sfence();
#endif
  a->seq++; // MARK: seq
#if BUG != 2
  _mm_clwb(&a->seq);
  _mm_sfence();
#endif
  unlock(a);
}
static void *worker(void *p) {
  deposit(p, 10);
  return 0;
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *bank)) return 1;
  bank = mmap(0, sizeof *bank, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (bank == MAP_FAILED) return 1;
  for (int i = 0; i < 2; i++) {
    atomic_store(&bank->acc[i].lock, 0); // MARK: reset
    assert(bank->acc[i].balance % 10 == 0 && bank->acc[i].balance >= 10 * bank->acc[i].seq);
  }
  pthread_t t;
  pthread_create(&t, 0, worker, &bank->acc[0]);
  deposit(&bank->acc[1], 10);
  pthread_join(t, 0);
  return 0;
}
