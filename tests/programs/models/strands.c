// Two strands of one thread. Compiled with -DJOIN they are joined before the second; with -DAPART they touch
// different fields.
//@ flags check: --model strand
//@ flags lint: --model strand
//@ prove: unknown (calls `crashproof_strand_begin`, which is not defined here)
//@ variant plain:
//@ check: dependent-strands at READ
//@ lint: concurrent-strands at READ
//@ variant join: -DJOIN
//@ check: clean
//@ lint: clean, no warnings
//@ variant apart: -DAPART
//@ check: clean
//@ lint: clean, no warnings
#include <crashproof.h>

struct account {
  long balance;
  char other_line[56];
  long log;
};

static PERSISTENT struct account account;

static void add(long amount) {
  crashproof_strand_begin();
  account.balance += amount; // MARK: ADD
  crashproof_persist(&account.balance, sizeof account.balance);
  crashproof_strand_end();
}

static void note(long amount) {
  crashproof_strand_begin();
#ifdef APART
  account.log = amount;
#else
  account.log = account.balance + amount; // MARK: READ
#endif
  crashproof_persist(&account.log, sizeof account.log);
  crashproof_strand_end();
}

int main(void) {
  add(5);
#ifdef JOIN
  crashproof_strand_join();
#endif
  note(7);
  return 0;
}
