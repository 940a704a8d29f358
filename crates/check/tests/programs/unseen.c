//! -DGOOD: clean
//! -DGOOD -DSTRICT: clean
//! -DLIBRARY: unknown changed without the runtime seeing it
//! -DLIBRARY -DSTRICT: unknown unseen.c:29: it touches
//! -DREADS: clean
//! -DREADS -DSTRICT: unknown unseen.c:70: it touches
//! -DHANDLER -DSTRICT: clean
//! -DRECOVERY: clean
//! -DRECOVERY -DSTRICT: unknown unseen.c:56: it touches
// Functions of the C library that the runtime does not stand before touch persistent memory. A check notices
// what they stored by what memory holds in the end; strict mode names the place.
#include <crashproof.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct root {
  struct tm date;
  char text[5000];
  long done;
};

static void fill(struct root *r) {
  time_t when = 1000000000;
#ifdef LIBRARY
  gmtime_r(&when, &r->date);
#else
  r->date.tm_year = (int)(when / 31556952) + 70;
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
    struct tm *date = &r->date;
    mktime(date);
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
  char line[64];
  strftime(line, sizeof line, "%Y", &r->date);
#endif
  return 0;
}
