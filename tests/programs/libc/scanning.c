// scanf from PM and into PM.
//@ prove: skip (too large to prove in a test)
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ variant plain:
//@ check: fails at LOST
//@ figures: 2 crash points, 5 recoveries
//@ lint: unflushed-write at LOST
#include <crashproof.h>
#include <stdio.h>
#include <string.h>

struct root {
  char text[64];
  long number;
  short small;
  char word[16];
  double fraction;
  char far_away[64];
  long done;
};

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (r->done) {
    int a;
    char b[8];
    crashproof_assert(sscanf(r->text, "%d %7s", &a, b) == 2 && a == 12 && strcmp(b, "thing") == 0);
    crashproof_assert(r->number == -5 && r->small == 7 && r->fraction == 0.5);
    crashproof_assert(strcmp(r->word, "word") == 0);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
  sprintf(r->text, "%d %s", 12, "thing");
  crashproof_persist(r->text, sizeof r->text); // MARK: flush-unmodified
  int skipped = 0;
  int found = sscanf("-5 7 99 word 0.5 x", "%ld %hd %*d %15s %lf %d", &r->number, &r->small, r->word, &r->fraction, &skipped); // MARK: LOST
  crashproof_assert(found == 4);
#ifdef GOOD
  crashproof_persist(&r->number, 64);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
