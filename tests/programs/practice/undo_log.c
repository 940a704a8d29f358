// Bank accounts with an undo log of their own.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant entry: -DBUG=1
//@ lint: unflushed-write at unflushed-write-4
//@ lint: unflushed-write at entry
//@ variant balance: -DBUG=2
//@ lint: unflushed-write at to
//@ variant valid: -DBUG=3
//@ lint: unflushed-write at valid
//@ variant two: -DBUG=4
//@ lint: unflushed-write at from
//@ lint: unflushed-write at to
//@ lint: empty-fence at empty-fence-5
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ACCOUNTS 4

typedef struct {
  int64_t balance;
  char pad[56];
} account_t;

typedef struct {
  uint64_t index;
  int64_t old;
} undo_t;

typedef struct {
  uint64_t valid;
  char pad[56];
  undo_t undo[2];
  char pad2[32];
  account_t accounts[ACCOUNTS];
  uint64_t initialized;
} bank_t;

static void flush_range(const void *start, size_t size) {
  char *p = (char *)((uintptr_t)start & ~(uintptr_t)63);
  char *end = (char *)start + size;
  do {
    _mm_clflushopt(p);
    p += 64;
  } while (p < end);
}

#define persist(what)                                                                                                            \
  do {                                                                                                                           \
    flush_range(&(what), sizeof(what));                                                                                          \
    _mm_sfence();                                                                                                                \
  } while (0)

static bank_t *bank_open(const char *file) {
  int fd = open(file, O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    return NULL;
  if (ftruncate(fd, sizeof(bank_t)) < 0) {
    close(fd);
    return NULL;
  }
  void *m = mmap(NULL, sizeof(bank_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return m == MAP_FAILED ? NULL : m;
}

static void bank_recover(bank_t *b) {
  if (!b->valid)
    return;
  for (int i = 0; i < 2; i++) {
    b->accounts[b->undo[i].index].balance = b->undo[i].old;
    persist(b->accounts[b->undo[i].index].balance);
  }
  b->valid = 0;
  persist(b->valid);
}

static int transfer(bank_t *b, unsigned from, unsigned to, int64_t amount) {
  if (from >= ACCOUNTS || to >= ACCOUNTS || b->accounts[from].balance < amount)
    return -1;
  b->undo[0] = (undo_t){from, b->accounts[from].balance}; // MARK: unflushed-write-4
  b->undo[1] = (undo_t){to, b->accounts[to].balance}; // MARK: entry
#if BUG != 1
  persist(b->undo);
#endif
  b->valid = 1; // MARK: valid
#if BUG != 3
  persist(b->valid);
#endif
  b->accounts[from].balance -= amount; // MARK: from
  b->accounts[to].balance += amount; // MARK: to
#if BUG != 4
  flush_range(&b->accounts[from], sizeof(account_t));
#if BUG != 2
  flush_range(&b->accounts[to], sizeof(account_t));
#endif
#endif
  _mm_sfence(); // MARK: empty-fence-5
  b->valid = 0;
  persist(b->valid);
  return 0;
}

int main(int argc, char **argv) {
  bank_t *bank = bank_open(argv[1]);
  if (bank == NULL)
    return 1;
  if (!bank->initialized) {
    for (int i = 0; i < ACCOUNTS; i++) {
      bank->accounts[i].balance = 100;
      flush_range(&bank->accounts[i], sizeof bank->accounts[i]);
    }
    _mm_sfence();
    bank->initialized = 1;
    persist(bank->initialized);
  }
  bank_recover(bank);
  int64_t sum = 0;
  for (int i = 0; i < ACCOUNTS; i++)
    sum += bank->accounts[i].balance;
  assert(sum == 100 * ACCOUNTS);
  transfer(bank, 0, 1, 30);
  transfer(bank, 2, 3, 5);
  return 0;
}
