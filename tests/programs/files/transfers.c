// What is written to a file by other ways than write: copies that the kernel makes between descriptors, formatted output to
// a descriptor, requests that are answered later. Each is durable after fsync, and only then.
//@ flags check: --medium disk
//@ args: {dir}/data {dir}/commit
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant sendfile-good: -DSENDFILE -DGOOD
//@ check: clean
//@ variant sendfile: -DSENDFILE
//@ check: fails at WRITTEN
//@ variant copy-good: -DCOPY -DGOOD
//@ check: clean
//@ variant copy: -DCOPY
//@ check: fails at WRITTEN
//@ variant splice-good: -DSPLICE -DGOOD
//@ check: clean
//@ variant splice: -DSPLICE
//@ check: fails at WRITTEN
//@ variant dprintf-good: -DDPRINTF -DGOOD
//@ check: clean
//@ variant dprintf: -DDPRINTF
//@ check: fails at WRITTEN
//@ variant aio-good: -DAIO -DGOOD
//@ check: clean
//@ variant aio: -DAIO
//@ check: fails at WRITTEN
//@ variant list-good: -DLIST -DGOOD
//@ check: clean
//@ variant list: -DLIST
//@ check: fails at WRITTEN
//@ variant raw-good: -DRAW -DGOOD
//@ check: clean
//@ variant raw: -DRAW
//@ check: fails at WRITTEN
#define _GNU_SOURCE
#include <aio.h>
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char text[] = "ten bytes.";
enum { LENGTH = sizeof text - 1 };

// A file that is not persistent.
static int source(void) {
  int fd = memfd_create("source", 0);
  crashproof_assert(fd >= 0 && write(fd, text, LENGTH) == LENGTH && lseek(fd, 0, SEEK_SET) == 0);
  return fd;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  int data = open(argv[1], O_RDWR | O_CREAT, 0644), commit = open(argv[2], O_RDWR | O_CREAT, 0644);
  crashproof_assert(data >= 0 && commit >= 0 && fsync(data) == 0 && fsync(commit) == 0);
  char done = 0, found[LENGTH + 1] = "";
  if (pread(commit, &done, 1, 0) == 1 && done) {
    crashproof_assert(lseek(data, 0, SEEK_DATA) == 0 && lseek(data, 0, SEEK_HOLE) == LENGTH);
    char *path = realpath(argv[1], NULL);
    crashproof_assert(path && access(path, R_OK) == 0);
    free(path);
    crashproof_assert(pread(data, found, LENGTH, 0) == LENGTH && strcmp(found, text) == 0);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
#if defined SENDFILE
  crashproof_assert(sendfile(data, source(), NULL, LENGTH) == LENGTH); // MARK: WRITTEN
#elif defined COPY
  crashproof_assert(copy_file_range(source(), NULL, data, NULL, LENGTH, 0) == LENGTH); // MARK: WRITTEN
#elif defined SPLICE
  int ends[2];
  crashproof_assert(pipe(ends) == 0 && splice(source(), NULL, ends[1], NULL, LENGTH, 0) == LENGTH);
  crashproof_assert(splice(ends[0], NULL, data, NULL, LENGTH, 0) == LENGTH); // MARK: WRITTEN
#elif defined DPRINTF
  crashproof_assert(dprintf(data, "%s %s", "ten", "bytes.") == LENGTH); // MARK: WRITTEN
#elif defined RAW
  crashproof_assert(syscall(SYS_pwrite64, data, text, LENGTH, 0) == LENGTH); // MARK: WRITTEN
#else
  struct aiocb request = {.aio_fildes = data, .aio_buf = (void *)text, .aio_nbytes = LENGTH, .aio_lio_opcode = LIO_WRITE};
#ifdef LIST
  struct aiocb *all[] = {&request};
  crashproof_assert(lio_listio(LIO_WAIT, all, 1, NULL) == 0); // MARK: WRITTEN
#else
  crashproof_assert(aio_write(&request) == 0); // MARK: WRITTEN
  const struct aiocb *all[] = {&request};
  crashproof_assert(aio_suspend(all, 1, NULL) == 0);
#endif
  crashproof_assert(aio_error(&request) == 0 && aio_return(&request) == LENGTH);
#endif
#ifdef GOOD
#ifdef RAW
  crashproof_assert(syscall(SYS_fsync, data) == 0);
#else
  crashproof_assert(fsync(data) == 0);
#endif
#endif
  done = 1;
  crashproof_assert(pwrite(commit, &done, 1, 0) == 1 && fsync(commit) == 0);
  return 0;
}
