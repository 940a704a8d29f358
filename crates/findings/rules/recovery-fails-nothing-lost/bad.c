#include <crashproof.h>

struct account {
  long mine, yours;
};

int main(void) {
  struct account *account = crashproof_root(sizeof *account);
  crashproof_assert(account->mine + account->yours == 0);
  if (crashproof_crashes())
    return 0;
  account->mine = -10;
  crashproof_persist(account, sizeof *account); /* a crash just after this finds half of the transfer */
  account->yours = 10;
  crashproof_persist(account, sizeof *account);
  return 0;
}
