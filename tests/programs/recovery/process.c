// What recovery may do to its process without hurting the checker.
//@ variant plain:
//@ check: clean
//@ figures: 2 crash points, 1 recoveries
//@ lint: unflushed-write at LAST
//@ prove: vacuous
//@ variant fork: -DFORK
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at LAST
//@ prove: unknown (calls `fork`, which is not defined here)
//@ variant vfork: -DVFORK
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: unknown (calls `vfork`, which is not defined here)
//@ variant daemon: -DDAEMON
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at LAST
//@ prove: unknown (calls `daemon`, which is not defined here)
//@ variant exec: -DEXEC
//@ check: unknown (executed another program)
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: unknown (calls `execvp`, which is not defined here)
//@ variant execl: -DEXECL
//@ check: unknown (executed another program)
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: unknown (calls `execl`, which is not defined here)
//@ variant close: -DCLOSE
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: unknown (calls `closefrom`, which is not defined here)
//@ variant system: -DSYSTEM
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: unknown (calls `system`, which is not defined here)
//@ variant output: -DOUTPUT
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: unknown (goes round more than 10000 times)
//@ variant quiet-exit: -DQUIET_EXIT
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: vacuous
//@ variant destructor: -DDESTRUCTOR
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: refuted at claim-violated
//@ variant spin-on-pm: -DSPIN_ON_PM
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: refuted at access-outside
//@ variant wait: -DWAIT
//@ check: unknown (recovery waited 20 seconds for input or another process)
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: unknown (calls `pause`, which is not defined here)
//@ variant raise: -DRAISE
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ figures: 2 crash points, 2 recoveries
//@ lint: unflushed-write at LAST
//@ prove: unknown (calls `raise`, which is not defined here)
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
    abort(); // MARK: claim-violated
#endif
}

static void after_crash(long *r) {
  in_recovery = 1;
#ifdef FORK
  if (fork() == 0) {
    for (int i = 0; i < 100; i++)
      r[i] = 7; // MARK: unflushed-write
    pause();
  }
#elif defined VFORK
  if (vfork() == 0)
    _exit(0);
#elif defined DAEMON
  crashproof_assert(daemon(0, 0) == 0);
  r[8] = 9; // MARK: unflushed-write-2
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
  while (*(volatile long *)r != -1) // MARK: access-outside
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
      after_crash(r);
    return 0;
  }
  *r = 1; // MARK: recovery-fails-nothing-lost
  crashproof_persist(r, sizeof *r);
  r[16] = 2; // MARK: LAST
  return 0;
}
