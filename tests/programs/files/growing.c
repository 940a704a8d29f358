// A mapped log grows: ftruncate and mremap when it is full. Its count is flushed after the entry.
//@ args: {dir}/log
//@ prove: skip (prove has no mremap)
//@ lint: skip (lint has no mremap)
//@ variant good: -DGOOD
//@ check: clean
//@ variant late:
//@ check: fails at ENTRY
#define _GNU_SOURCE
#include <crashproof.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct log {
  long count;
  long entries[];
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  struct stat status;
  crashproof_assert(fd >= 0 && fstat(fd, &status) == 0);
  size_t size = (size_t)status.st_size;
  if (size < 4096) {
    size = 4096;
    crashproof_assert(ftruncate(fd, (off_t)size) == 0);
  }
  struct log *log = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(log != MAP_FAILED);
  crashproof_assert(sizeof(long) * (size_t)(log->count + 1) <= size);
  for (long i = 0; i < log->count; i += 100)
    crashproof_assert(log->entries[i] == i + 1);
  if (log->count)
    crashproof_assert(log->entries[log->count - 1] == log->count);
  if (crashproof_crashes())
    return 0;
  for (long i = 0; i < 2000; i += 500) {
    if (sizeof(long) * (size_t)(i + 501) > size) {
      crashproof_assert(ftruncate(fd, (off_t)(2 * size)) == 0);
      log = mremap(log, size, 2 * size, MREMAP_MAYMOVE);
      crashproof_assert(log != MAP_FAILED);
      size *= 2;
    }
    for (long entry = i; entry < i + 500; entry++)
      log->entries[entry] = entry + 1; // MARK: ENTRY
#ifdef GOOD
    crashproof_persist(&log->entries[i], 500 * sizeof(long));
#endif
    log->count = i + 500;
    crashproof_persist(log, sizeof *log);
#ifndef GOOD
    crashproof_persist(&log->entries[i], 500 * sizeof(long));
#endif
  }
  return 0;
}
