// Transfers between accounts under an undo log with one entry per account.
//@ args: {dir}/bank
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant log: -DBUG=1
//@ check: recovery-fails at oldto
//@ check: recovery-fails at to
//@ lint: unflushed-write at from
//@ lint: unflushed-write at old
//@ lint: unflushed-write at to
//@ lint: unflushed-write at oldto
//@ variant data: -DBUG=2
//@ check: recovery-fails at credit
//@ lint: unflushed-write at credit
//@ variant disarm: -DBUG=3
//@ check: recovery-fails at credit
//@ check: recovery-fails at debit
//@ lint: publish-before-persist at debit
//@ lint: publish-before-persist at credit
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ACCOUNTS 4
#define TOTAL 400

struct undo {
  uint64_t active __attribute__((aligned(64)));
  struct {
    uint64_t account;
    uint64_t old;
  } entry[2] __attribute__((aligned(64)));
};

struct bank {
  struct undo log;
  struct {
    uint64_t balance;
  } __attribute__((aligned(64))) account[ACCOUNTS];
  uint64_t ready __attribute__((aligned(64)));
};

static void persist(void *p, size_t n) {
  uintptr_t line = (uintptr_t)p / 64 * 64;
  for (; line < (uintptr_t)p + n; line += 64)
    _mm_clwb((void *)line);
  _mm_sfence();
}

static void rollback(struct bank *b) {
  if (!b->log.active)
    return;
  for (int i = 0; i < 2; i++) {
    uint64_t a = b->log.entry[i].account;
    b->account[a].balance = b->log.entry[i].old;
    persist(&b->account[a], 8);
  }
  b->log.active = 0;
  persist(&b->log.active, 8);
}

static int transfer(struct bank *b, unsigned from, unsigned to, uint64_t amount) {
  if (b->account[from].balance < amount)
    return -1;
  b->log.entry[0].account = from; // MARK: from
  b->log.entry[0].old = b->account[from].balance; // MARK: old
  b->log.entry[1].account = to; // MARK: to
  b->log.entry[1].old = b->account[to].balance; // MARK: oldto
#if BUG != 1
  persist(b->log.entry, sizeof b->log.entry);
#endif
  b->log.active = 1;
  persist(&b->log.active, sizeof b->log.active);

  b->account[from].balance -= amount; // MARK: debit
  b->account[to].balance += amount;   // MARK: credit
#if BUG != 3
  persist(&b->account[from], 8);
#if BUG != 2
  persist(&b->account[to], 8);
#endif
#endif
  b->log.active = 0;
  persist(&b->log.active, sizeof b->log.active);
#if BUG == 3
  persist(&b->account[from], 8);
  persist(&b->account[to], 8);
#endif
  return 0;
}

static struct bank *open_bank(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct bank)) < 0)
    return NULL;
  struct bank *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (b == MAP_FAILED)
    return NULL;
  if (!b->ready) {
    for (int i = 0; i < ACCOUNTS; i++)
      b->account[i].balance = TOTAL / ACCOUNTS;
    persist(b->account, sizeof b->account);
    b->ready = 1;
    persist(&b->ready, 8);
  }
  return b;
}

int main(int argc, char **argv) {
  struct bank *b = open_bank(argv[1]);
  if (!b)
    return 1;
  rollback(b);
  uint64_t sum = 0;
  for (int i = 0; i < ACCOUNTS; i++)
    sum += b->account[i].balance;
  assert(sum == TOTAL);
  transfer(b, 0, 1, 30);
  transfer(b, 1, 2, 50);
  return 0;
}
