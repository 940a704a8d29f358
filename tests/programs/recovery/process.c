//@ variant plain:
//@ check: clean
//@ figures: 2 crash points, 1 recoveries
//@ variant fork: -DFORK
//@ check: unknown (it forked)
//@ figures: 2 crash points, 2 recoveries
//@ variant vfork: -DVFORK
//@ check: unknown (it forked)
//@ figures: 2 crash points, 2 recoveries
//@ variant daemon: -DDAEMON
//@ check: unknown (it forked)
//@ figures: 2 crash points, 2 recoveries
//@ variant exec: -DEXEC
//@ check: unknown (executed another program)
//@ figures: 2 crash points, 2 recoveries
//@ variant execl: -DEXECL
//@ check: unknown (executed another program)
//@ figures: 2 crash points, 2 recoveries
//@ variant close: -DCLOSE
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ variant system: -DSYSTEM
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ variant output: -DOUTPUT
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ variant quiet-exit: -DQUIET_EXIT
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ variant destructor: -DDESTRUCTOR
//@ check: fails at LAST
//@ figures: 2 crash points, 2 recoveries
//@ variant spin-on-pm: -DSPIN_ON_PM
//@ check: fails at LAST
//@ figures: 2 crash points, 2 recoveries
//@ variant wait: -DWAIT
//@ check: fails at LAST
//@ figures: 2 crash points, 2 recoveries
//@ variant raise: -DRAISE
//@ check: fails at LAST
//@ figures: 2 crash points, 2 recoveries
// What recovery may do to its process without hurting the checker.
#include <crashproof.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int in_recovery;
__attribute__((destructor)) static void at_end(void) {
#ifdef DESTRUCTOR
  if (in_recovery)
    abort();
#endif
}

static void recover(long *r) {
  in_recovery = 1;
#ifdef FORK
  if (fork() == 0) {
    for (int i = 0; i < 100; i++)
      r[i] = 7; // must not reach the trace
    pause();
  }
#elif defined VFORK
  if (vfork() == 0)
    _exit(0);
#elif defined DAEMON
  crashproof_assert(daemon(0, 0) == 0);
  r[8] = 9;
  pause();
#elif defined EXEC
  char *arguments[] = {"true", NULL};
  execvp("true", arguments);
#elif defined EXECL
  execl("/bin/true", "true", NULL);
#elif defined CLOSE
  for (int fd = 0; fd < 1024; fd++)
    close(fd);
  closefrom(3);
#elif defined SYSTEM
  crashproof_assert(system("exit 0") == 0);
#elif defined OUTPUT
  for (int i = 0; i < 1000000; i++)
    printf("a line of output that nobody will ever read, number %d\n", i);
#elif defined QUIET_EXIT
  _exit(0);
#elif defined MEMORY
  for (;;)
    memset(malloc(256 << 20), 1, 4096);
#elif defined SPIN
  for (volatile int i = 0;; i++)
    ;
#elif defined SPIN_ON_PM
  while (*(volatile long *)r != -1)
    ;
#elif defined WAIT
  pause();
#elif defined RAISE
  raise(SIGTERM);
#endif
  (void)r;
}

int main(void) {
  long *r = crashproof_root(4096);
  if (crashproof_crashes()) {
    if (*r == 1)
      recover(r);
    return 0;
  }
  *r = 1;
  crashproof_persist(r, sizeof *r);
  r[16] = 2; // MARK: LAST
  return 0;
}
