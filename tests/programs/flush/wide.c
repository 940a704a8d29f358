// Wide strings: what these functions write are stores, what they look at is read.
//@ prove: unknown (is not modeled)
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ variant plain:
//@ check: recovery-fails at recovery-fails
//@ check: recovery-fails at LOST
//@ figures: 1 crash points, 13 recoveries
//@ lint: unknown (known wrong: memory given to functions that nothing is known of is only noted)
//@ variant recovers: -DRECOVERS
//@ check: recovery-fails at recovery-fails
//@ check: recovery-fails at LOST
//@ figures: 1 crash points, 13 recoveries
//@ lint: unknown (known wrong: memory given to functions that nothing is known of is only noted)
#include <crashproof.h>
#include <wchar.h>

struct root {
  wchar_t text[24];
  wchar_t copy[24];
  long done;
};

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (crashproof_crashes()) {
#ifdef RECOVERS
    wchar_t volatile_copy[24];
    if (r->done)
      crashproof_assert(wcslen(wcscpy(volatile_copy, r->text)) == 11);
#endif
    if (r->done) {
      crashproof_assert(wcscmp(r->text, L"hello world") == 0);
      crashproof_assert(wcsncmp(r->copy, L"xxlo", 4) == 0);
      crashproof_assert(wcschr(r->copy, L'o') == r->copy + 3);
      crashproof_assert(wmemcmp(r->copy + 2, r->text + 3, 2) == 0);
      crashproof_assert(wcsstr(r->text, L"wor") == r->text + 6);
      crashproof_assert(wmemchr(r->text, L'w', 11) == r->text + 6);
    }
    return 0;
  }
  wcscpy(r->text, L"hello");
  wcscat(r->text, L" ");
  wcsncat(r->text, L"world!", 5); // MARK: LOST
  wmemcpy(r->copy, r->text, 5);
  wmemset(r->copy, L'x', 2);
  wmemmove(r->copy + 2, r->copy + 3, 2); // MARK: recovery-fails
#ifdef GOOD
  crashproof_persist(r, sizeof *r);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
