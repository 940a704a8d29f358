// Timers whose signals the program handles come at the same place in every run, between two operations.
//@ lint: skip (about signals)
//@ prove: skip (about signals)
//@ variant flag: -DFLAG
//@ check: clean
//@ variant flag-bad: -DFLAG -DBAD
//@ check: recovery-fails at data
//@ variant pause: -DPAUSE
//@ check: clean
//@ variant pause-bad: -DPAUSE -DBAD
//@ check: recovery-fails at data
//@ variant sleep: -DSLEEP
//@ check: clean
//@ variant suspend: -DSUSPEND
//@ check: clean
//@ variant wait: -DWAIT
//@ check: clean
//@ variant created: -DCREATED
//@ check: clean
//@ variant watchdog: -DWATCHDOG
//@ check: clean
//@ variant busy: -DBUSY
//@ check: clean
//@ variant heartbeat: -DHEARTBEAT
//@ check: unknown (the handler of a timer's signal touches persistent memory)
//@ variant heartbeat-bad: -DHEARTBEAT -DBAD
//@ check: recovery-fails at data
//@ check: unknown (the handler of a timer's signal touches persistent memory)
//@ variant sent: -DSENT
//@ check: clean
//@ variant sent-bad: -DSENT -DBAD
//@ check: recovery-fails at data
#include <crashproof.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long ready __attribute__((aligned(64)));
PERSISTENT long work __attribute__((aligned(64)));
static volatile sig_atomic_t came;

static void put(long *to, long value) {
  *to = value;
  crashproof_persist(to, sizeof *to);
}

static void write_data(void) {
  data = 42; // MARK: data
#ifndef BAD
  crashproof_persist(&data, sizeof data);
#endif
}

static void handler(int number) {
  (void)number;
#ifdef WATCHDOG
  _exit(77);
#elif defined SENT
  write_data();
#elif defined HEARTBEAT
  if (came == 0)
    write_data();
#endif
  came++;
}

static void created(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  came += info->si_value.sival_int;
}

int main(void) {
  if (crashproof_crashes()) {
    if (ready)
      crashproof_assert(data == 42);
    return 0;
  }
  struct sigaction action = {.sa_handler = handler};
  crashproof_assert(sigaction(SIGALRM, &action, 0) == 0);
#ifdef FLAG
  // Two hundred microseconds: the handler runs in the middle of the loop.
  struct itimerval soon = {.it_value = {0, 200}};
  crashproof_assert(setitimer(ITIMER_REAL, &soon, 0) == 0);
  long rounds = 0;
  while (!came)
    put(&work, ++rounds);
  crashproof_assert(rounds > 1);
  write_data();
#elif defined PAUSE
  alarm(3600);
  crashproof_assert(pause() == -1 && errno == EINTR && came == 1);
  write_data();
#elif defined SLEEP
  alarm(10);
  crashproof_assert(sleep(100) == 90 && came == 1);
  write_data();
#elif defined SUSPEND
  sigset_t blocked, none;
  sigemptyset(&none);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGALRM);
  sigprocmask(SIG_BLOCK, &blocked, 0);
  alarm(1);
  put(&work, 1);
  crashproof_assert(sigsuspend(&none) == -1 && came == 1);
  write_data();
#elif defined WAIT
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGALRM);
  sigprocmask(SIG_BLOCK, &blocked, 0);
  alarm(1);
  int which = 0;
  crashproof_assert(sigwait(&blocked, &which) == 0 && which == SIGALRM && came == 0);
  write_data();
#elif defined CREATED
  struct sigaction with_info = {.sa_sigaction = created, .sa_flags = SA_SIGINFO};
  crashproof_assert(sigaction(SIGRTMIN, &with_info, 0) == 0);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  event.sigev_value.sival_int = 5;
  timer_t timer;
  crashproof_assert(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec every = {.it_value = {1, 0}, .it_interval = {1, 0}};
  crashproof_assert(timer_settime(timer, 0, &every, 0) == 0);
  pause();
  pause();
  crashproof_assert(came == 10 && timer_delete(timer) == 0);
  write_data();
#elif defined WATCHDOG
  alarm(60);
  write_data();
  for (int round = 0; round < 100; round++)
    put(&work, round);
  crashproof_assert(alarm(0) == 60);
#elif defined BUSY
  // Nothing happens meanwhile that the runtime could see, but for the flag.
  alarm(1);
  while (!came)
    ;
  write_data();
#elif defined HEARTBEAT
  struct itimerval often = {{0, 100}, {0, 100}};
  crashproof_assert(setitimer(ITIMER_REAL, &often, 0) == 0);
  while (came < 3)
    put(&work, came);
  memset(&often, 0, sizeof often);
  setitimer(ITIMER_REAL, &often, 0);
#elif defined SENT
  kill(getpid(), SIGALRM);
  crashproof_assert(came == 1);
#endif
  put(&ready, 1);
  return 0;
}
