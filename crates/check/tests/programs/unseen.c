//! -DGOOD: clean (1 places, 1 recoveries)
//! -DGOOD -DSTRICT: clean (1 places, 1 recoveries)
//! -DLIBRARY: unknown changed without the runtime seeing it (1 places, 1 recoveries)
//! -DLIBRARY -DSTRICT: unknown unseen.c:29: it touches (1 places, 1 recoveries)
//! -DREADS: clean (1 places, 1 recoveries)
//! -DREADS -DSTRICT: unknown unseen.c:69: it touches (1 places, 1 recoveries)
//! -DHANDLER -DSTRICT: clean (1 places, 1 recoveries)
//! -DRECOVERY: clean (1 places, 1 recoveries)
//! -DRECOVERY -DSTRICT: unknown unseen.c:56: it touches (1 places, 1 recoveries)
// Functions of the C library that the runtime does not stand before touch persistent memory. A check notices
// what they stored by what memory holds in the end; strict mode names the place.
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
  frexp(value, &r->exponent);
#else
  r->exponent = value > 4;
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
    frexp(value, &r->exponent);
#endif
    return 0;
  }
  fill(r);
  // What the C library does in the runtime's name is in order, also across pages, and so is assembly.
  memset(r->text, 'x', sizeof r->text - 1);
  memmove(r->text + 1, r->text, 4500);
  if (write(STDOUT_FILENO, r->text, sizeof r->text) != sizeof r->text)
    return 8;
  __asm__ volatile("lock; incq %0" : "+m"(r->done));
  crashproof_persist(r, sizeof *r);
#ifdef READS
  if (a64l(r->text) == 0)
    return 9;
#endif
  return 0;
}
