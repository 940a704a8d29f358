// Time, process numbers and random bytes are the same in every run: otherwise recovery would find other
// values than the recorded run stored.
//@ lint: clean, no warnings
//@ prove: unknown (calls `kill`, which is not defined here)
//@ variant plain:
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ variant gettid: -DGETTID
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
#include <crashproof.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct root {
  long values[8];
  long done;
};

static volatile sig_atomic_t signalled;
static void on_signal(int signal) { signalled = signal; }

static void ask(long *values) {
  values[0] = time(NULL);
  struct timeval day;
  gettimeofday(&day, NULL);
  values[1] = day.tv_usec;
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  sleep(100);
  usleep(1000);
  nanosleep(&(struct timespec){3600, 0}, NULL);
  clock_gettime(CLOCK_MONOTONIC, &after);
  crashproof_assert(after.tv_sec - before.tv_sec >= 3700);
  values[2] = after.tv_nsec;
  values[3] = getpid() ^ (long)getppid() << 20;
  getrandom(&values[4], sizeof values[4], 0);
  getentropy(&values[5], sizeof values[5]);
  int fd = open("/dev/urandom", O_RDONLY);
  crashproof_assert(read(fd, &values[6], 8) == 8);
  close(fd);
  FILE *file = fopen("/dev/urandom", "r");
  crashproof_assert(fread(&values[7], 8, 1, file) == 1);
  fclose(file);
#ifdef GETTID
  values[7] ^= gettid();
#endif
}

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  signal(SIGUSR1, on_signal);
  kill(getpid(), SIGUSR1);
  crashproof_assert(signalled == SIGUSR1);
  long values[8];
  ask(values);
  if (r->done) {
    for (int i = 0; i < 8; i++)
      crashproof_assert(r->values[i] == values[i]);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
  for (int i = 0; i < 8; i++)
    r->values[i] = values[i];
  crashproof_persist(r->values, sizeof r->values);
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
