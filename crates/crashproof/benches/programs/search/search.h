// Shared by the programs of the search bench: `main` does the work in its first run and recovers after a crash. Built
// natively with -DBOUND it measures what no checker can do without: a fork and the recovery itself, at samples of
// the moments at which the work could crash.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void recover(long n);

#ifdef BOUND
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#define PERSISTENT
static inline void crashproof_flush(const void *start, size_t bytes) { (void)start, (void)bytes; }
static inline void crashproof_drain(void) {}
static inline void crashproof_persist(const void *start, size_t bytes) { (void)start, (void)bytes; }
static inline uint32_t crashproof_crashes(void) { return 0; }
#define crashproof_assert(condition) ((condition) ? (void)0 : abort())

static long samples_, step_, size_;

// One operation of the work is done.
static void operation_done(long i) {
  if (i % step_)
    return;
  samples_++;
  pid_t child = fork();
  if (child == 0) {
    recover(size_);
    _exit(0);
  }
  waitpid(child, 0, 0);
}

static void begin_work(long n) { size_ = n, step_ = n / 200 > 0 ? n / 200 : 1; }

static double cpu_seconds(int who) {
  struct rusage use;
  getrusage(who, &use);
  return use.ru_utime.tv_sec + use.ru_stime.tv_sec + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

// Seconds of processor time per recovery; the work itself is nothing beside them.
static void end_work(void) {
  printf("%.9f\n", (cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN)) / samples_);
}
#else
#include <crashproof.h>
static void operation_done(long i) { (void)i; }
static void begin_work(long n) { (void)n; }
static void end_work(void) {}
#endif
