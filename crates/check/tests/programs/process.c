//! : clean (2 places, 1 recoveries)
//! -DFORK: unknown it forked (2 places, 2 recoveries)
//! -DVFORK: unknown it forked (2 places, 2 recoveries)
//! -DDAEMON: unknown it forked (2 places, 2 recoveries)
//! -DEXEC: unknown executed another program (2 places, 2 recoveries)
//! -DEXECL: unknown executed another program (2 places, 2 recoveries)
//! -DCLOSE: clean (2 places, 2 recoveries)
//! -DSYSTEM: clean (2 places, 2 recoveries)
//! -DOUTPUT: clean (2 places, 2 recoveries)
//! -DQUIET_EXIT: clean (2 places, 2 recoveries)
//! -DMEMORY: error at LAST (2 places, 2 recoveries)
//! -DDESTRUCTOR: error at LAST (2 places, 2 recoveries)
//! -DSPIN: error at LAST (2 places, 2 recoveries)
//! -DSPIN_ON_PM: error at LAST (2 places, 2 recoveries)
//! -DWAIT: error at LAST (2 places, 2 recoveries)
//! -DRAISE: error at LAST (2 places, 2 recoveries)
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
  r[16] = 2; // LAST
  return 0;
}
