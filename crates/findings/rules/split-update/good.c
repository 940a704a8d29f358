#include <stdint.h>
#include <crashproof.h>

struct account {
  long balance;
  long limit;
} __attribute__((aligned(64)));
PERSISTENT struct account account;

void update(long balance, long limit) {
  account.balance = balance;
  account.limit = limit;
  crashproof_persist(&account, sizeof account);
}
