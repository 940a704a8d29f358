// Recovery copies a backup over torn data, and drops the backup. If it drops it too early, a second crash, in recovery,
// loses both: one crash does not show it.
//@ lint: skip (what recovery does is the question here)
//@ variant right: -DBUG=0
//@ flags check: --crashes 2
//@ flags prove: --crashes 2
//@ check: clean
//@ prove: proved
//@ variant one-crash: -DBUG=1
//@ check: clean
//@ prove: proved
//@ variant two-crashes: -DBUG=1
//@ flags check: --crashes 2
//@ flags prove: --crashes 2
//@ check: fails at restored
//@ prove: refuted at claim

#include <crashproof.h>

struct pair {
  long a, b;
};

PERSISTENT struct pair data __attribute__((aligned(64)));
PERSISTENT struct pair backup __attribute__((aligned(64)));
PERSISTENT long valid __attribute__((aligned(64)));

static void set(struct pair *pair, long value) {
  pair->a = value;
  pair->b = value;
}

void recover(void) {
  if (valid) {
    data.a = backup.a;
    data.b = backup.b; // MARK: restored
#if BUG
    valid = 0; // MARK: dropped
    crashproof_persist(&valid, sizeof valid);
    crashproof_persist(&data, sizeof data);
#else
    crashproof_persist(&data, sizeof data);
    valid = 0;
    crashproof_persist(&valid, sizeof valid);
#endif
  }
  crashproof_assert(data.a == data.b); // MARK: claim
}

int main(void) {
  set(&backup, 0);
  crashproof_persist(&backup, sizeof backup);
  valid = 1;
  crashproof_persist(&valid, sizeof valid);
  set(&data, 7);
  crashproof_persist(&data, sizeof data);
  valid = 0;
  crashproof_persist(&valid, sizeof valid);
  return 0;
}
