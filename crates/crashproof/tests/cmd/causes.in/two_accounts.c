#include "pm.h"
struct account { char name[56]; long balance; };
struct bank { struct account accounts[2]; long opened; };

static void withdraw(struct account *a, long amount) {
  a->balance -= amount;
  persist(&a->balance);
}

static void deposit(struct account *a, long amount) {
  a->balance += amount;
  persist(&a->balance);
}

int main(void) {
  struct bank *bank = crashproof_root(sizeof *bank);
  if (bank->opened)
    return bank->accounts[0].balance + bank->accounts[1].balance == 100 ? 0 : 1;
  bank->accounts[0].balance = 100;
  persist(&bank->accounts[0].balance);
  bank->opened = 1;
  persist(&bank->opened);
  withdraw(&bank->accounts[0], 30);
  deposit(&bank->accounts[1], 30);
  return 0;
}
