#include <stdint.h>
#include <crashproof.h>

struct account {
  long balance;
  char other_line[64];
  long limit;
};
PERSISTENT struct account account;

void update(long balance, long limit) {
  account.balance = balance;
  crashproof_persist(&account.balance, sizeof account.balance);
  account.limit = limit;
  crashproof_persist(&account.limit, sizeof account.limit);
}
