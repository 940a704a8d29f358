// Copies of texts read no more than the text: counterexamples of prove that read beyond it would be no failures of the program.
//@ variant good: -DGOOD
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant good-fortified: -DGOOD -O2 -D_FORTIFY_SOURCE=2
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant chained: -DGOOD -DCHAINED
//@ check: clean
//@ lint: unknown (this flush may write back)
//@ prove: proved
//@ variant lost
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ prove: refuted
#define _GNU_SOURCE
#include <crashproof.h>
#include <stdio.h>
#include <string.h>

struct row {
  char first[64], second[64], third[64], fourth[64];
  long done;
};

int main(void) {
  struct row *r = crashproof_root(sizeof *r);
  if (r->done) {
    crashproof_assert(!strcmp(r->first, "12") && !r->first[63]);
    crashproof_assert(!strcmp(r->second, "one=2"));
    crashproof_assert(!strcmp(r->third, "key") && r->third[4] == 0);
    crashproof_assert(!strcmp(r->fourth, "7 rows"));
    return 0;
  }
  crashproof_assert(stpncpy(r->first, "12", sizeof r->first) == r->first + 2);
#ifdef CHAINED
  stpcpy(stpcpy(stpcpy(r->second, "one"), "="), "2");
#else
  crashproof_assert(stpcpy(r->second, "one=2") == r->second + 5);
#endif
  crashproof_assert(memccpy(r->third, "key=value", '=', sizeof r->third) == r->third + 4);
  r->third[3] = 0;
  snprintf(r->fourth, sizeof r->fourth, "%d rows", 7); // MARK: LOST
  char line[] = "a=b", *rest = line;
  crashproof_assert(!strcmp(strsep(&rest, "="), "a") && !strcmp(strsep(&rest, "="), "b") && !rest);
  crashproof_assert(strpbrk("path/to", "/:")[1] == 't' && !strpbrk("path", "/:"));
  crashproof_assert(*strchrnul("abc", 'x') == 0 && memmem("abcd", 4, "cd", 2) && !memmem("abcd", 3, "cd", 2));
  crashproof_assert(memrchr("abca", 'a', 4) != memchr("abca", 'a', 4));
#ifdef GOOD
  crashproof_persist(r, sizeof *r);
#else
  crashproof_persist(r, 192);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
