// Functions of the C library that leave their results in memory: in persistent memory these are stores of the call.
//@ lint: skip (what is flushed with everything else is not its business)
//@ prove: skip (check is asked)
//@ cflags: -DGOOD
//@ check: clean
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <crashproof.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

struct results {
  struct tm date;
  char text[64], path[4096], link[64], address[16], shown[48], name[64], swapped[8];
  struct stat file, directory;
  int counted, exponent;
  double whole;
  float whole_float;
  long double whole_long;
  wchar_t wide[16], character;
  char narrow[16], one[16], moment[32];
  unsigned seed;
  unsigned short state[3];
  long drawn;
  sigset_t signals;
  int ends[2];
  char *rest;
};

struct root {
  struct results results;
  long done;
};

static void fill(struct results *r) {
  time_t when = 1000000000;
  gmtime_r(&when, &r->date); // MARK: date
  strftime(r->text, sizeof r->text, "%Y-%m-%d %H:%M", &r->date);
  asctime_r(&r->date, r->moment);
  stat("/", &r->file);
  int root = dup(0);
  fstat(root, &r->directory);
  close(root);
  if (!getcwd(r->path, sizeof r->path) || readlink("/proc/self/fd/none", r->link, sizeof r->link) >= 0)
    exit(9);
  inet_pton(AF_INET, "10.1.2.3", r->address);
  inet_ntop(AF_INET, r->address, r->shown, sizeof r->shown);
  snprintf(r->name, sizeof r->name, "ab%ncd", &r->counted);
  swab("abcdef", r->swapped, 6);
  volatile double value = 6.75;
  if (frexp(value, &r->exponent) != 0.84375 || modf(value, &r->whole) != 0.75 || modff(1.5f, &r->whole_float) != 0.5f)
    exit(10);
  if (modfl(2.25L, &r->whole_long) != 0.25L)
    exit(11);
  if (mbstowcs(r->wide, "wide", 16) != 4 || mbtowc(&r->character, "x", 1) != 1)
    exit(12);
  if (wcstombs(r->narrow, L"narrow", 16) != 6 || wctomb(r->one, L'y') != 1)
    exit(13);
  rand_r(&r->seed);
  r->drawn = nrand48(r->state);
  sigfillset(&r->signals);
  sigdelset(&r->signals, SIGINT);
  if (strptime("2001 rest", "%Y", &r->date) == NULL)
    exit(14);
}

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (crashproof_crashes()) {
    if (r->done) {
      static struct results again;
      fill(&again);
      // The name of the zone is a pointer to volatile memory.
      crashproof_assert(!memcmp(&r->results.date, &again.date, offsetof(struct tm, tm_zone)));
      crashproof_assert(!strcmp(r->results.text, again.text));
      crashproof_assert(!strcmp(r->results.moment, again.moment));
      crashproof_assert(r->results.file.st_ino == again.file.st_ino);
      crashproof_assert(r->results.directory.st_mode == again.directory.st_mode);
      crashproof_assert(!strcmp(r->results.path, again.path));
      crashproof_assert(!strcmp(r->results.shown, again.shown));
      crashproof_assert(r->results.counted == 2 && !strcmp(r->results.name, "abcd"));
      crashproof_assert(!memcmp(r->results.swapped, "badcfe", 6));
      crashproof_assert(r->results.exponent == 3 && r->results.whole == 6 && r->results.whole_float == 1);
      crashproof_assert(r->results.whole_long == 2);
      crashproof_assert(!wcscmp(r->results.wide, L"wide") && r->results.character == L'x');
      crashproof_assert(!strcmp(r->results.narrow, "narrow") && r->results.one[0] == 'y');
      crashproof_assert(r->results.seed == again.seed && r->results.drawn == again.drawn);
      crashproof_assert(!memcmp(&r->results.signals, &again.signals, sizeof again.signals));
    }
    return 0;
  }
  fill(&r->results);
#ifdef GOOD
  crashproof_persist(&r->results, sizeof r->results);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
