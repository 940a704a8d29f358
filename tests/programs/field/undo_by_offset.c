// An undo log on libpmem: the commit flushes the addresses that the log names, not those that the transaction stored through.
//@ args: {dir}/bank
//@ variant right: -DRIGHT
//@ check: clean
//@ lint: clean (known wrong: how often the loop over the log runs is not known here, and the balances count as unflushed)
//@ prove: proved
//@ variant log: -DBUG_LOG
//@ check: recovery-fails at old
//@ lint: publish-before-persist at offset (known wrong: how often the loop over the log runs is not known here, and the balances count as unflushed)
//@ lint: publish-before-persist at old
//@ prove: refuted at main (not fenced)
//@ variant commit: -DBUG_COMMIT
//@ check: recovery-fails at from
//@ check: recovery-fails at to
//@ lint: unflushed-write at from
//@ lint: unflushed-write at to
//@ prove: refuted at main (never flushed)
#include <assert.h>
#include <fcntl.h>
#include <libpmem.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ACCOUNTS 32
#define LOG_MAX 16
typedef struct { uint64_t offset; uint64_t old; } record_t;
typedef struct {
  uint64_t initialized;
  uint64_t log_count;
  _Alignas(64) record_t log[LOG_MAX];
  int64_t balance[ACCOUNTS];
} bank_t;
static bank_t *bank;

static void tx_begin(void) { assert(bank->log_count == 0); }
static void tx_save(void *p) {
  record_t *r = &bank->log[bank->log_count];
  r->offset = (char *)p - (char *)bank; // MARK: offset
  r->old = *(uint64_t *)p; // MARK: old
#ifdef BUG_LOG
  pmem_flush(r, sizeof *r);
#else
  pmem_persist(r, sizeof *r);
#endif
  bank->log_count++;
  pmem_persist(&bank->log_count, sizeof bank->log_count);
}
static void tx_commit(void) {
#ifndef BUG_COMMIT
  for (uint64_t i = 0; i < bank->log_count; i++)
    pmem_flush((char *)bank + bank->log[i].offset, 8);
  pmem_drain();
#endif
  bank->log_count = 0;
  pmem_persist(&bank->log_count, sizeof bank->log_count);
}
static void recover(void) {
  for (uint64_t i = bank->log_count; i-- > 0;) {
    uint64_t *p = (uint64_t *)((char *)bank + bank->log[i].offset);
    *p = bank->log[i].old;
    pmem_persist(p, 8);
  }
  bank->log_count = 0;
  pmem_persist(&bank->log_count, sizeof bank->log_count);
}
static void transfer(int from, int to, int64_t amount) {
  tx_begin();
  tx_save(&bank->balance[from]);
  bank->balance[from] -= amount; // MARK: from
  tx_save(&bank->balance[to]);
  bank->balance[to] += amount; // MARK: to
  tx_commit();
}
int main(int argc, char **argv) { // MARK: main
  size_t len; int is_pmem;
  bank = pmem_map_file(argc > 1 ? argv[1] : "bank", sizeof *bank, PMEM_FILE_CREATE, 0666, &len, &is_pmem);
  if (!bank) { perror("map"); return 1; }
  if (!bank->initialized) {
    for (int i = 0; i < ACCOUNTS; i++) bank->balance[i] = 100;
    bank->log_count = 0;
    pmem_persist(bank->balance, sizeof bank->balance);
    pmem_persist(&bank->log_count, sizeof bank->log_count);
    bank->initialized = 1;
    pmem_persist(&bank->initialized, sizeof bank->initialized);
  } else
    recover();
  int64_t sum = 0;
  for (int i = 0; i < ACCOUNTS; i++) sum += bank->balance[i];
  if (sum != 100 * ACCOUNTS) { fprintf(stderr, "money lost: %ld\n", sum); return 2; }
  transfer(0, 17, 30);
  transfer(17, 9, 55);
  pmem_unmap(bank, len);
  return 0;
}
