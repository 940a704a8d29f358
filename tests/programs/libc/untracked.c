// What is not followed on persistent memory is named.
//@ args: {dir}/pool
//@ lint: clean, no warnings
//@ prove: unknown (is not modeled)
//@ variant plain:
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ variant date: -DDATE
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write
//@ variant recovers: -DRECOVERS
//@ check: clean
//@ figures: 1 crash points, 1 recoveries
//@ lint: unflushed-write at unflushed-write-2
//@ variant aio: -DAIO
//@ check: clean
//@ lint: unknown (PM passed to the unknown function `aio_read`: add its source, or describe it with --api)
//@ variant stream: -DSTREAM
//@ check: clean
//@ figures: 2 crash points, 1 recoveries
#include <aio.h>
#include <crashproof.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct root {
  struct tm date;
  char buffer[64];
  long done;
};

int main(int argc, char **argv) {
  struct root *r = crashproof_root(sizeof *r);
  time_t when = 1000000000;
  if (crashproof_crashes()) {
#ifdef RECOVERS
    gmtime_r(&when, &r->date); // MARK: unflushed-write-2
#endif
    return 0;
  }
  struct tm date;
  gmtime_r(&when, &date); // not on persistent memory
#ifdef DATE
  gmtime_r(&when, &r->date); // MARK: unflushed-write
#endif
#ifdef AIO
  struct aiocb request;
  memset(&request, 0, sizeof request);
  request.aio_fildes = open("/dev/zero", O_RDONLY);
  request.aio_buf = r->buffer;
  request.aio_nbytes = sizeof r->buffer;
  aio_read(&request);
  while (aio_error(&request) == EINPROGRESS)
    ;
#endif
#ifdef STREAM
  FILE *stream = fopen(argv[1], "w");
  fputs("text", stream);
  fclose(stream);
  unlink(argv[1]);
#endif
  r->done = argc + date.tm_year + (argv != NULL);
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
