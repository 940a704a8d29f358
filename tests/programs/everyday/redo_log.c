// A redo log: entries name an offset and a value; a committed log is applied to addresses computed from its entries.
//@ args: {dir}/bank
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at line-5
//@ check: recovery-fails at log
//@ prove: refuted at sum
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails at apply
//@ prove: refuted at sum

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#define ACCOUNTS 8
#define LOG_MAX 4

struct log_entry {
  uint64_t offset;
  uint64_t value;
};

struct bank {
  uint64_t formatted;
  char pad0[56];
  uint64_t committed; /* number of valid log entries, 0: none */
  char pad1[56];
  struct log_entry log[LOG_MAX];
  uint64_t balance[ACCOUNTS];
};

static struct bank *bank;

static void flush(const void *addr, size_t len) {
  for (uintptr_t p = (uintptr_t)addr & ~(uintptr_t)63; p < (uintptr_t)addr + len; p += 64)
    _mm_clflushopt((void *)p);
}

static void apply_log(void) {
  for (uint64_t i = 0; i < bank->committed; i++) {
    uint64_t *target = (uint64_t *)((char *)bank + bank->log[i].offset);
    *target = bank->log[i].value; // MARK: apply
#if BUG != 2
    flush(target, sizeof *target);
#endif
  }
  _mm_sfence();
  bank->committed = 0; // MARK: clear
  flush(&bank->committed, sizeof bank->committed);
  _mm_sfence();
}

static void transfer(int from, int to, uint64_t amount) {
  bank->log[0].offset = (uint64_t)((char *)&bank->balance[from] - (char *)bank);
  bank->log[0].value = bank->balance[from] - amount; // MARK: log
  bank->log[1].offset = (uint64_t)((char *)&bank->balance[to] - (char *)bank);
  bank->log[1].value = bank->balance[to] + amount; // MARK: line-5
#if BUG != 1
  flush(bank->log, 2 * sizeof(struct log_entry));
  _mm_sfence();
#endif
  bank->committed = 2; // MARK: commit
  flush(&bank->committed, sizeof bank->committed);
  _mm_sfence();
  apply_log();
}

int main(int argc, char *argv[]) {
  if (argc != 2)
    return 2;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd == -1)
    return 3;
  if (ftruncate(fd, sizeof(struct bank)))
    return 3;
  bank = mmap(NULL, sizeof *bank, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (bank == MAP_FAILED)
    return 3;
  if (!bank->formatted) {
    for (int i = 0; i < ACCOUNTS; i++)
      bank->balance[i] = 100;
    bank->committed = 0;
    flush(bank, sizeof *bank);
    _mm_sfence();
    bank->formatted = 1;
    flush(&bank->formatted, sizeof bank->formatted);
    _mm_sfence();
  } else {
    apply_log();
  }
  uint64_t sum = 0;
  for (int i = 0; i < ACCOUNTS; i++)
    sum += bank->balance[i];
  assert(sum == 100 * ACCOUNTS); // MARK: sum
  transfer(0, 5, 30);
  return 0;
}
