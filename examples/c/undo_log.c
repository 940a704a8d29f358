/*
 * Two balances and an undo log. A transfer first saves both balances in the log and marks it valid, then
 * changes them in place, then drops the log. If the log is valid after a crash, recovery puts the saved
 * balances back. Try it with recovery crashing too: crashproof check examples/c/undo_log.c --crashes 2
 */
#include <crashproof.h>

struct bank {
  long from, to;
  struct {
    long from, to, valid;
  } log __attribute__((aligned(64)));
} __attribute__((aligned(64)));

static void transfer(struct bank *bank, long amount) {
  bank->log.from = bank->from;
  bank->log.to = bank->to;
  bank->log.valid = 1; /* same cache line as the values: persists after them */
  crashproof_persist(&bank->log, sizeof bank->log);
  bank->from -= amount;
  bank->to += amount;
  crashproof_persist(bank, sizeof(long) * 2);
  bank->log.valid = 0;
  crashproof_persist(&bank->log.valid, sizeof bank->log.valid);
}

static void recover(struct bank *bank) {
  if (!bank->log.valid)
    return;
  bank->from = bank->log.from;
  bank->to = bank->log.to;
  crashproof_persist(bank, sizeof(long) * 2);
  bank->log.valid = 0;
  crashproof_persist(&bank->log.valid, sizeof bank->log.valid);
}

int main(void) {
  struct bank *bank = crashproof_root(sizeof *bank);
  recover(bank);
  crashproof_assert(bank->from + bank->to == 0);
  if (crashproof_crashes())
    return 0;
  for (long amount = 1; amount <= 3; amount++)
    transfer(bank, amount);
  return 0;
}
