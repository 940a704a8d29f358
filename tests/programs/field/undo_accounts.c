// A transfer under an undo log that names its accounts by number: both balances must be durable before the log is disarmed.
//@ args: {dir}/bank
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DRIGHT
//@ check: clean
//@ lint: clean
//@ variant credit: -DCREDIT
//@ check: recovery-fails at credit
//@ check: recovery-fails at credit
//@ lint: unflushed-write at credit
//@ variant fence: -DFENCE
//@ check: recovery-fails at debit
//@ check: recovery-fails at credit
//@ lint: publish-before-persist at debit
//@ lint: publish-before-persist at credit
//@ variant late: -DLATE
//@ check: recovery-fails at debit
//@ check: recovery-fails at credit
//@ lint: publish-before-persist at debit
//@ lint: publish-before-persist at credit
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct undo {
  uint64_t active, a, b, old_a, old_b;
};

struct bank {
  struct undo undo __attribute__((aligned(64)));
  uint64_t account[16] __attribute__((aligned(64)));
};

static void flush(const void *at, size_t bytes) {
  uintptr_t line = (uintptr_t)at & ~63ull, end = (uintptr_t)at + bytes;
  for (; line < end; line += 64)
    _mm_clwb((void *)line);
}

static void persist(const void *at, size_t bytes) {
  flush(at, bytes);
  _mm_sfence();
}

static void recover_bank(struct bank *k) {
  if (k->undo.active) {
    k->account[k->undo.a] = k->undo.old_a;
    k->account[k->undo.b] = k->undo.old_b;
    persist(&k->account[k->undo.a], 8);
    persist(&k->account[k->undo.b], 8);
    k->undo.active = 0;
    persist(&k->undo.active, 8);
  }
}

static int transfer(struct bank *k, unsigned a, unsigned b, uint64_t amount) {
  if (k->account[a] < amount)
    return -1;
  k->undo.a = a;
  k->undo.b = b;
  k->undo.old_a = k->account[a];
  k->undo.old_b = k->account[b];
  persist(&k->undo, sizeof k->undo);
  k->undo.active = 1;
  persist(&k->undo.active, 8);
  k->account[a] -= amount; // MARK: debit
  k->account[b] += amount; // MARK: credit
#ifndef LATE
  flush(&k->account[a], 8);
#ifndef CREDIT
  flush(&k->account[b], 8);
#endif
#ifndef FENCE
  _mm_sfence();
#endif
#endif
  k->undo.active = 0;
  persist(&k->undo.active, 8);
#ifdef LATE
  persist(&k->account[a], 8);
  persist(&k->account[b], 8);
#endif
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "bank", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(struct bank)) != 0)
    return 2;
  struct bank *k = mmap(NULL, sizeof *k, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (k == MAP_FAILED)
    return 2;
  recover_bank(k);
  uint64_t total = 0;
  for (int i = 0; i < 16; i++)
    total += k->account[i];
  if (total != 0 && total != 100) {
    fprintf(stderr, "the total is %lu\n", total);
    return 1;
  }
  if (total == 0) {
    k->account[0] = 100;
    persist(&k->account[0], 8);
  }
  transfer(k, 0, 9, 10);
  transfer(k, 9, 3, 5);
  return 0;
}
