// Functions of the C library that the runtime does not stand before touch persistent memory. A check notices
// what they stored by what memory holds in the end; strict mode names the place.
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ prove: unknown (floating-point arithmetic)
//@ variant good-strict: -DGOOD -DSTRICT
//@ flags check: --strict
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ prove: unknown (floating-point arithmetic)
//@ variant library: -DLIBRARY
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ prove: unknown (is not modeled)
//@ variant library-strict: -DLIBRARY -DSTRICT
//@ flags check: --strict
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ prove: unknown (is not modeled)
//@ variant reads: -DREADS
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ prove: unknown (floating-point arithmetic)
//@ variant reads-strict: -DREADS -DSTRICT
//@ flags check: --strict
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ prove: unknown (floating-point arithmetic)
//@ variant handler-strict: -DHANDLER -DSTRICT
//@ flags check: --strict
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: clean, no warnings
//@ prove: unknown (is not modeled)
//@ variant recovery: -DRECOVERY
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ prove: unknown (floating-point arithmetic)
//@ variant recovery-strict: -DRECOVERY -DSTRICT
//@ flags check: --strict
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ prove: unknown (floating-point arithmetic)
#include <crashproof.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct root {
  int exponent;
  char text[5000];
  long done;
};

static void fill(struct root *r) {
  volatile double value = 5;
#ifdef LIBRARY
  frexp(value, &r->exponent); // MARK: touched
#else
  r->exponent = value > 4; // MARK: unflushed-write
#endif
}

#ifdef HANDLER
static sigjmp_buf back;
static void handler(int signal) { siglongjmp(back, signal); }
#endif

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
#ifdef HANDLER
  // The program's own handlers and masks work as ever.
  signal(SIGSEGV, handler);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  if (sigsetjmp(back, 1) == 0) {
    *(volatile int *)16 = 1;
    return 7;
  }
#endif
  if (crashproof_crashes()) {
#ifdef RECOVERY
    volatile double value = 5;
    frexp(value, &r->exponent); // MARK: touched-3
#endif
    return 0;
  }
  fill(r);
  // What the C library does in the runtime's name is in order, also across pages, and so is assembly.
  memset(r->text, 'x', sizeof r->text - 1); // MARK: unflushed-write-2
  memmove(r->text + 1, r->text, 4500); // MARK: unflushed-write-3
  if (write(STDOUT_FILENO, r->text, sizeof r->text) != sizeof r->text)
    return 8;
  __asm__ volatile("lock; incq %0" : "+m"(r->done));
  crashproof_persist(r, sizeof *r);
#ifdef READS
  if (a64l(r->text) == 0) // MARK: touched-2
    return 9;
#endif
  return 0;
}
