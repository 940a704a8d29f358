// Block functions of the C library, called as functions.
//@ variant good-fno-builtin: -DGOOD -fno-builtin
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ prove: proved
//@ variant good-o2-fortify-source-2: -DGOOD -O2 -D_FORTIFY_SOURCE=2
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ prove: proved
//@ variant fno-builtin: -fno-builtin
//@ check: fails at LOST
//@ figures: 2 crash points, 3 recoveries
//@ lint: unflushed-write at LOST (known wrong: memccpy is not known)
//@ prove: refuted
#include <crashproof.h>
#include <string.h>
#include <strings.h>

struct root {
  char a[64], b[64], c[64], d[64];
  long done;
};

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (r->done) {
    char expected[64];
    memset(expected, 7, sizeof expected);
    crashproof_assert(memcmp(r->a, expected, 64) == 0);
    crashproof_assert(bcmp(r->b, expected + 1, 10) == 0 && r->b[10] == 'x');
    crashproof_assert(memchr(r->b, 'x', 64) == r->b + 10);
    crashproof_assert(memrchr(r->b, 'x', 64) == r->b + 10);
    crashproof_assert(rawmemchr(r->b, 'x') == r->b + 10);
    crashproof_assert(memmem(r->c, 64, "needle", 6) == r->c + 3);
    crashproof_assert(memcmp(r->d, "abc;", 4) == 0 && r->d[4] == 0);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
  char from[64];
  memset(from, 7, sizeof from);
  memcpy(r->a, from, 32);
  char *end = mempcpy(r->a + 32, from, 16);
  crashproof_assert(end == r->a + 48);
  memset(r->a + 48, 7, 16);
  memcpy(r->b + 5, r->a, 10); // PM to PM, then overlapping within PM
  memmove(r->b, r->b + 5, 10);
  memset(r->b + 10, 'x', 1);
  bzero(r->b + 11, 53);
  bcopy("hayneedlestack", r->c, 14);
  explicit_bzero(r->d, 64);
  char *after = memccpy(r->d, "abc;def", ';', 64); // MARK: LOST
  crashproof_assert(after == r->d + 4);
#ifdef GOOD
  crashproof_persist(r, sizeof *r);
#else
  crashproof_persist(r, 192);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
