#include <crashproof.h>

static PERSISTENT struct {
  long balance;
  char other_line[56];
  long report;
} account;

int main(void) {
  crashproof_strand_begin();
  account.balance = 5;
  crashproof_persist(&account.balance, sizeof account.balance);
  crashproof_strand_end();

  crashproof_strand_begin();
  account.report = 2 * account.balance; /* may persist before the balance does */
  crashproof_persist(&account.report, sizeof account.report);
  crashproof_strand_end();
  return 0;
}
