// A record of many lines of which none is flushed before the flag, although recovery relies on them all.
//@ variant good: -DGOOD -DLINES=3
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant plain: -DLINES=3
//@ check: recovery-fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: refuted at claim-violated
//@ variant random: -DLINES=40
//@ flags check: --random 50 --seed 7
//@ check: unknown (50 random crashes)
//@ check: recovery-fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: refuted at claim-violated
#include <crashproof.h>

#ifndef LINES
#define LINES 40
#endif

struct line {
  volatile long value;
} __attribute__((aligned(64)));

struct root {
  struct line flag, line[LINES];
};

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (!crashproof_crashes()) {
    for (int i = 0; i < LINES; i++)
      root->line[i].value = i + 1; // MARK: LOST
#ifdef GOOD
    crashproof_persist(root->line, sizeof root->line);
#endif
    root->flag.value = 1;
    crashproof_persist(&root->flag, sizeof root->flag);
    return 0;
  }
  if (root->flag.value) {
    long sum = 0; // reads all before it judges
    for (int i = 0; i < LINES; i++)
      sum += root->line[i].value;
#ifdef SILENT
    (void)sum;
#else
    crashproof_assert(sum == LINES * (LINES + 1) / 2); // MARK: claim-violated
#endif
  }
  return 0;
}
