#include <crashproof.h>

struct account {
  long mine, yours, to_transfer; /* one cache line: its stores persist in order */
};

int main(void) {
  struct account *account = crashproof_root(sizeof *account);
  if (account->to_transfer) { /* redo what was interrupted */
    account->mine = -account->to_transfer;
    account->yours = account->to_transfer;
    account->to_transfer = 0;
    crashproof_persist(account, sizeof *account);
  }
  crashproof_assert(account->mine + account->yours == 0);
  if (crashproof_crashes())
    return 0;
  account->to_transfer = 10;
  account->mine = -10;
  account->yours = 10;
  account->to_transfer = 0;
  crashproof_persist(account, sizeof *account);
  return 0;
}
